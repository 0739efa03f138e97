"""Products by activations of few columns are dot products along the depth."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import IRModule, relax, tirx

import relay_layout
from tests.relay_layout.lower.row_products import called

Shape = tuple[int | str, ...]


def network(left: Shape, right: Shape) -> IRModule:
    sizes: dict[str, Any] = {}

    def extent(each: int | str) -> Any:
        return sizes.setdefault(each, tirx.Var(each, "int64")) if isinstance(each, str) else each

    rows, matrix = (
        relax.Var(name, relax.TensorType([extent(each) for each in shape], "float32"))
        for name, shape in (("rows", left), ("matrix", right))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [rows, matrix]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(rows, matrix))
            output = builder.emit_output(relax.op.multiply(product, relax.const(0.5, "float32")))
        builder.emit_func_output(output)
    return builder.finalize()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, "S", "T"), (2, "T", 1)),
        ((2, "S", "T"), (2, "T", 3)),
        ((2, "S", "T"), ("T", 2)),
        (("S", "T"), ("T",)),
        ((5, 40), (40, 2)),
        ((2, 3, 37), (37,)),
    ],
)
def test_dot_products(left: Shape, right: Shape, tmp_path: Path) -> None:
    compiled = relay_layout.compile(network(left, right), threads=1, shipped_records=False)
    assert any("dots" in name for name in called(compiled))
    compiled.save(tmp_path / "product.rla")
    session = relay_layout.load(tmp_path / "product.rla")
    random = np.random.default_rng(0)
    for sizes in ({"S": 5, "T": 1}, {"S": 1, "T": 16}, {"S": 7, "T": 53}):
        rows, matrix = (
            random.standard_normal([sizes.get(str(each), each) for each in shape]).astype("float32")
            for shape in (left, right)
        )
        (found,) = session.run({"rows": rows, "matrix": matrix}).values()
        np.testing.assert_allclose(found, rows @ matrix / 2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("left", "right"), [((2, "S", "T"), (2, "T", 4)), ((2, "S", 3), (2, 3, 3))])
def test_others_are_no_dot_products(left: Shape, right: Shape) -> None:
    compiled = relay_layout.compile(network(left, right), threads=1, shipped_records=False)
    assert not any("dots" in name for name in called(compiled))
