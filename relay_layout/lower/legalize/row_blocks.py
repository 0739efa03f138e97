"""Products of as many rows as are known at run time: in blocks of a number for which kernels have tiles.

The last block repeats the last row, and what it gives for that is dropped. This is for what
:mod:`.pixel_rows` leaves: instructions for matrices, whose tiles have a known number of rows.
"""

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, is_static, shape_of
from relay_layout.lower.dynamic_shapes.run_time_extents import extent_variable
from topi_ext.compute.row_numbers import index_of_row, number_of_row

BLOCK_ROWS = 8
"""Rows of a block; so many known ones after a first axis of unknown extent are blocks of their own."""


def is_by_blocks(data: Expression) -> bool:
    """Whether rows of ``data``, (..., elements), are to be taken in blocks: their number is not known now."""
    *outer, elements = shape_of(data) or ()
    if not outer or not isinstance(elements, int) or elements == 0 or is_static(outer):
        return False
    return not is_static(outer[1:]) or prod(outer[1:]) < BLOCK_ROWS


def in_blocks(
    builder: relax.BlockBuilder, data: Expression, product: Callable[[Expression], Expression]
) -> Expression:
    """``product`` of ``data``, (..., elements), which gets the rows in blocks: (blocks, rows, elements)."""
    shape = shape_of(data) or ()
    blocks = extent_variable(
        builder,
        data,
        lambda tensor: tirx.floordiv(prod(tensor.shape[:-1]) + (BLOCK_ROWS - 1), BLOCK_ROWS),
        "blocks",
    )
    cut = builder.emit(builder.call_te(_cut, data, blocks, primfunc_name_hint="cut_rows"))
    found = builder.emit(product(cut))
    goal = [*shape[:-1], (shape_of(found) or ())[-1]]
    return builder.call_te(_joined, found, relax.ShapeExpr(goal), primfunc_name_hint="join_rows")


def _cut(data: te.Tensor, blocks: Any) -> te.Tensor:
    last = prod(data.shape[:-1]) - 1

    def element(block: Any, row: Any, column: Any) -> Any:
        return data(*index_of_row(te.min(block * BLOCK_ROWS + row, last), data.shape[:-1]), column)

    return te.compute((blocks, BLOCK_ROWS, data.shape[-1]), element, name="cut_rows")


def _joined(found: te.Tensor, goal: Any) -> te.Tensor:
    def element(*index: Any) -> Any:
        row = number_of_row(index[:-1], goal[:-1])
        return found(row // BLOCK_ROWS, row % BLOCK_ROWS, index[-1])

    return te.compute(list(goal), element, name="join_rows")
