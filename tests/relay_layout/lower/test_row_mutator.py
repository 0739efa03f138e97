"""Elementwise operators on rows, behind products of few rows."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.ir import Expression, bindings_of, constant, operator_name, shape_of
from relay_layout.lower.legalize.product_rows import multiply_as_rows

WEIGHT = constant(np.ones((4, 8), "float32"))

Call = Callable[[Expression], Expression]


def behind_a_product(call: Call, *, in_its_block: bool = True) -> tvm.IRModule:
    """What is called on [7, 2, 8] that a product gives."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((7, 2, 4), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result, name = relax.op.matmul(data, WEIGHT), "product"
            if in_its_block:
                result, name = call(builder.emit(result, name)), "behind"
            result = builder.emit_output(result, name)
        builder.emit_func_output(result if in_its_block else builder.emit(call(result), "behind"))
    return multiply_as_rows(builder.finalize())


def binding_of(module: tvm.IRModule, operator: str) -> relax.Binding:
    (found,) = [each for each in bindings_of(module["main"]) if operator_name(each.value) == operator]
    return found


@pytest.mark.parametrize(
    ("operator", "call"),
    [
        ("nn.relu", relax.op.nn.relu),
        ("clip", lambda data: relax.op.clip(data, 0, 6)),
        ("add", lambda data: relax.op.add(data, relax.const(1.0, "float32"))),
        ("multiply", lambda data: relax.op.multiply(data, constant(np.ones((1, 8), "float32")))),
    ],
)
def test_operands(operator: str, call: Call) -> None:
    assert shape_of(binding_of(behind_a_product(call), operator).var) == (14, 8)


def test_rows_have_the_name_of_what_they_are() -> None:
    module = behind_a_product(relax.op.nn.relu)
    assert binding_of(module, "matmul").var.name == "product"
    assert binding_of(module, "nn.relu").var.name == "behind"


def test_rows_of_one_block_are_not_read_in_another() -> None:
    module = behind_a_product(relax.op.nn.relu, in_its_block=False)
    relax.analysis.well_formed(module)
    assert shape_of(binding_of(module, "nn.relu").var) == (7, 2, 8)
