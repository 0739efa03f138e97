"""Images of any size, put together of their windows by Col2Im, against ONNX Runtime."""

from pathlib import Path

import pytest

from tests.relay_layout.frontend.onnx.test_sizes import check, ints

SIZES = [(1, 4, 6, 8), (2, 4, 7, 5), (1, 4, 9, 4)]

COLUMNS = """
    more = Mul (x, x)  most = Abs (x)  many = Concat <axis=1> (x, more, most)
    size = Shape <start=2> (x)  counts = {counts}  image = Mul (size, scale)
    batch = Shape <end=1> (x)  smaller = Concat <axis=0> (batch, twelve, counts)
    few = Resize <mode="nearest"> (many, , , smaller)
    windows = ReduceProd <keepdims=1> (counts)  all = Concat <axis=0> (batch, twelve, windows)
    columns = Reshape (few, all)  y = Col2Im <{attributes}> (columns, image, block)
"""


@pytest.mark.parametrize(
    ("block", "attributes", "counts", "scale"),
    [
        # Rows and columns that are no whole window stay zero.
        ((2, 3), "strides=[2, 3]", "Div (size, block)", (1, 1)),
        ((2, 1), "strides=[2, 3]", "Identity (size)", (2, 3)),
        ((3, 2), "pads=[1, 1, 1, 0]", "Identity (size)", (1, 1)),
        ((2, 2), "dilations=[2, 1], pads=[1, 0, 1, 1]", "Identity (size)", (1, 1)),
        ((3, 4), "strides=[2, 2], pads=[0, 1, 1, 1]", "Identity (size)", (2, 2)),
    ],
    ids=["apart", "gaps", "overlapping", "dilated", "strided"],
)
def test_windows_of_images_of_any_size(
    block: tuple[int, int], attributes: str, counts: str, scale: tuple[int, int], tmp_path: Path
) -> None:
    nodes = COLUMNS.format(counts=counts, attributes=attributes)
    constants = {"block": ints(*block), "twelve": ints(12), "scale": ints(*scale)}
    check(tmp_path, nodes, constants, SIZES)
