"""Products of few rows for each of many leading places."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import relay_layout
from relay_layout.ir import bindings_of, constant, operator_name, shape_of
from relay_layout.lower.legalize.product_rows import multiply_as_rows

RANDOM = np.random.default_rng(0)
WIDE, BACK = (RANDOM.standard_normal(shape).astype("float32") / 4 for shape in ((16, 24), (24, 16)))
BIAS = RANDOM.standard_normal((1, 1, 24)).astype("float32")


def feed_forward(shape: Any) -> tvm.IRModule:
    """Two products with a bias, an activation and what they were computed from added."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            wide = builder.emit(relax.op.matmul(data, constant(WIDE)))
            wide = builder.emit(relax.op.add(wide, constant(BIAS)))
            wide = builder.emit(relax.op.nn.relu(wide))
            back = builder.emit(relax.op.matmul(wide, constant(BACK)))
            result = builder.emit_output(relax.op.add(back, data))
        builder.emit_func_output(result)
    return builder.finalize()


def ranks(module: tvm.IRModule) -> list[tuple[str, int]]:
    """Operators that are not reshapes, with the rank of what they give."""
    values = [binding.value for binding in bindings_of(module["main"])]
    found = [(operator_name(value), len(shape_of(value) or ())) for value in values]
    return [(name, rank) for name, rank in found if name and name != "reshape"]


@pytest.mark.parametrize("shape", [(7, 1, 16), (3, 2, 5, 16), (tirx.Var("length", "int64"), 1, 16)])
def test_products_and_what_is_elementwise_are_of_rows(shape: Any) -> None:
    module = multiply_as_rows(feed_forward(shape))
    assert ranks(module) == [("matmul", 2), ("add", 2), ("nn.relu", 2), ("matmul", 2), ("add", 2)]


@pytest.mark.parametrize("shape", [(1, 7, 16), (2, 64, 16), (tirx.Var("length", "int64"), 2, 16), (7, 16)])
def test_other_products_stay(shape: Any) -> None:
    before = feed_forward(shape)
    tvm.ir.assert_structural_equal(multiply_as_rows(before), before)


def test_an_operand_that_fits_no_rows_is_read_by_what_was() -> None:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((7, 1, 16), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            wide = builder.emit(relax.op.matmul(data, constant(WIDE)))
            wide = builder.emit(relax.op.add(wide, constant(BIAS[..., :1].repeat(7, 0))))
            result = builder.emit_output(builder.emit(relax.op.split(wide, 2, axis=2))[0])
        builder.emit_func_output(result)
    before = builder.finalize()
    after = [binding.value for binding in bindings_of(multiply_as_rows(before)["main"])]
    assert [operator_name(value) for value in after[:5]] == ["reshape", "matmul", "reshape", "add", "split"]


@pytest.mark.parametrize("shape", [(7, 1, 16), (3, 2, 5, 16), (tirx.Var("length", "int64"), 1, 16)])
def test_numbers(shape: Any, tmp_path: Path) -> None:
    data = RANDOM.standard_normal((7, 1, 16) if len(shape) == 3 else shape).astype("float32")
    relay_layout.compile(feed_forward(shape), threads=2).save(tmp_path / "rows.rla")
    (found,) = relay_layout.load(tmp_path / "rows.rla").run({"data": data}).values()
    wanted = np.maximum(data @ WIDE + BIAS, 0) @ BACK + data
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
