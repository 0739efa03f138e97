"""Loops over dimensions that lie as one become one, and no others."""

import pytest
from tvm import te, tirx

from topi_ext.schedule.blocks import child_blocks, loop_extent, open_schedule
from topi_ext.schedule.cpu.coalescing import coalesce


def left(result: te.Tensor, *operands: te.Tensor) -> list[int | None]:
    """The extents of the loops of the one block that computes ``result``, but for the last, coalesced."""
    sch = open_schedule(te.create_prim_func([*operands, result]))
    (block,) = child_blocks(sch)
    return [loop_extent(sch, loop) for loop in coalesce(sch, block, sch.get_loops(block)[:-1])]


IMAGE = te.placeholder((2, 4, 7, 5, 8), "float32", "image")
SCALES = te.placeholder((1, 4, 1, 1, 8), "float32", "scales")
LARGER = te.placeholder((2, 4, 9, 6, 8), "float32", "larger")


@pytest.mark.parametrize(
    ("body", "operands", "extents"),
    [
        pytest.param(lambda n, c, h, w, b: IMAGE[n, c, h, w, b] + 1.0, [IMAGE], [280], id="all"),
        pytest.param(
            lambda n, c, h, w, b: IMAGE[n, c, h, w, b] * SCALES[0, c, 0, 0, b],
            [IMAGE, SCALES],
            [2, 4, 35],
            id="for each channel another scale",
        ),
        pytest.param(
            lambda n, c, h, w, b: LARGER[n, c, h, w, b], [LARGER], [8, 7, 5], id="a window of a larger image"
        ),
        pytest.param(
            lambda n, c, h, w, b: LARGER[n, c, h + 2, w + 1, b], [LARGER], [8, 7, 5], id="not at its corner"
        ),
        pytest.param(
            lambda n, c, h, w, b: IMAGE[n, c, 6 - h, w, b], [IMAGE], [8, 7, 5], id="rows turned around"
        ),
        pytest.param(
            lambda n, c, h, w, b: IMAGE[n, c, h, w, b] + tirx.Cast("float32", w),
            [IMAGE],
            [56, 5],
            id="computed of a place",
        ),
    ],
)
def test_loops_that_are_left(body: object, operands: list[te.Tensor], extents: list[int]) -> None:
    assert left(te.compute((2, 4, 7, 5, 8), body, "result"), *operands) == extents


def test_loops_inside_of_others() -> None:
    result = te.compute(
        (2, 4, 7, 5, 8), lambda n, c, h, w, b: IMAGE[n, c, h, w, b] * SCALES[0, c, 0, 0, b], "r"
    )
    sch = open_schedule(te.create_prim_func([IMAGE, SCALES, result]))
    (block,) = child_blocks(sch)
    kept = coalesce(sch, block, sch.get_loops(block)[1:-1], first=1)
    assert [loop_extent(sch, loop) for loop in kept] == [4, 35]


def test_an_offset_in_the_outer_dimension_does_not_matter() -> None:
    image = te.placeholder((1, 12, 7, 5, 8), "float32", "image")
    part = te.compute((1, 4, 7, 5, 8), lambda n, c, h, w, b: image[n, c + 3, h, w, b], "part")
    assert left(part, image) == [140]


def test_extents_that_are_not_known_keep_their_loops() -> None:
    rows = tirx.Var("rows", "int64")
    image = te.placeholder((4, rows, 8), "float32", "image")
    result = te.compute((4, rows, 8), lambda c, h, b: image[c, h, b] + 1.0, "result")
    assert left(result, image) == [4, None]
