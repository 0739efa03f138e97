"""Products of as many rows as are known at run time: in blocks of a number for which kernels have tiles.

The last block repeats the last row, and what it gives for that is dropped. A matrix that no cache keeps comes
in pieces that one does: all blocks are multiplied by some of its rows before the next are read, and what the
pieces give is added up.
"""

from collections.abc import Callable
from functools import partial
from math import ceil, prod
from typing import Any

from tvm import relax, te, tirx, topi

from relay_layout.ir import Expression, is_static, shape_of
from relay_layout.lower.dynamic_shapes.run_time_extents import extent_variable
from topi_ext.compute.row_numbers import index_of_row, number_of_row

_ROWS = 8
"""Of a block, for a matrix that stays in a cache: with more, many rows are hardly faster and few take longer.
So many known rows after a first axis of unknown extent are blocks of their own."""

_ROWS_FROM_MEMORY = 12
"""Measured on 12544 by 1024 of float32, 1 to 1000 rows: 24 are faster for 13 to 40, and slower for fewer."""

_CACHED_BYTES = 16 << 20
"""Matrices up to this size stay in the last-level cache from one block to the next."""

_PIECE_BYTES = 4 << 20
"""Measured on the same: with pieces of half or twice the size, products take a tenth longer."""

_PIECE_ROWS = 16
"""A divisor of how many rows of the matrix a piece has: all but the last one have the same kernel."""


def is_by_blocks(data: Expression) -> bool:
    """Whether rows of ``data``, (..., elements), are to be taken in blocks: their number is not known now."""
    *outer, elements = shape_of(data) or ()
    if not outer or not isinstance(elements, int) or elements == 0 or is_static(outer):
        return False
    return not is_static(outer[1:]) or prod(outer[1:]) < _ROWS


def in_blocks(
    builder: relax.BlockBuilder,
    data: Expression,
    matrix_bytes: int,
    product: Callable[[Expression, range], Expression],
) -> Expression:
    """``product`` of ``data``, (..., elements), by a matrix of so many bytes.

    It gets the rows in blocks, (blocks, rows, elements), and which rows of the matrix their elements meet.
    """
    shape = shape_of(data) or ()
    elements, is_cached = int(shape[-1]), matrix_bytes <= _CACHED_BYTES
    rows = _ROWS if is_cached else _ROWS_FROM_MEMORY
    pieces = 1 if is_cached else ceil(matrix_bytes / _PIECE_BYTES)
    length = ceil(elements / (pieces * _PIECE_ROWS)) * _PIECE_ROWS
    blocks = extent_variable(
        builder, data, lambda tensor: tirx.floordiv(prod(tensor.shape[:-1]) + (rows - 1), rows), "blocks"
    )

    def piece(begin: int) -> Expression:
        part = range(begin, min(begin + length, elements))
        cut = partial(_cut, part=part)
        block = builder.emit(builder.call_te(cut, data, blocks, rows, primfunc_name_hint="cut_rows"))
        return builder.emit(product(block, part))

    found = piece(0)
    for begin in range(length, elements, length):
        found = builder.emit(builder.call_te(topi.add, piece(begin), found, primfunc_name_hint="sum"))
    goal = [*shape[:-1], (shape_of(found) or ())[-1]]
    return builder.call_te(_joined, found, relax.ShapeExpr(goal), primfunc_name_hint="join_rows")


def _cut(data: te.Tensor, blocks: Any, rows: int, part: range) -> te.Tensor:
    last = prod(data.shape[:-1]) - 1

    def element(block: Any, row: Any, column: Any) -> Any:
        return data(*index_of_row(te.min(block * rows + row, last), data.shape[:-1]), part.start + column)

    return te.compute((blocks, rows, len(part)), element, name="cut_rows")


def _joined(found: te.Tensor, goal: Any) -> te.Tensor:
    rows = found.shape[1]

    def element(*index: Any) -> Any:
        row = number_of_row(index[:-1], goal[:-1])
        return found(row // rows, row % rows, index[-1])

    return te.compute(list(goal), element, name="join_rows")


__all__ = ["in_blocks", "is_by_blocks"]
