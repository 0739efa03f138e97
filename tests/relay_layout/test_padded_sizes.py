"""Padded tensors have the sizes that their kernels give."""

import pytest
from tvm import relax, tirx

from relay_layout.ir import shape_of


@pytest.mark.parametrize("widths", [[0, 0, 1, 1], [0, 0, 2, 0]])
def test_sizes_are_simple(widths: list[int]) -> None:
    rows = tirx.Var("rows", "int64")
    image = relax.Var("image", relax.TensorType([4, (rows - 1) // 2 + 1], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        padded = builder.emit(relax.op.nn.pad(image, widths))
        builder.emit_func_output(padded)
    assert [str(extent) for extent in shape_of(padded)] == ["4", str((rows - 1) // 2 + 3)]
