"""Elements, or slices, that differ: equal ones are neighbours once they are in order."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import relax

from relay_layout.frontend.operators.ranking import first_elements
from relay_layout.ir import Expression, dtype_of, shape_of
from topi_ext.compute.row_order import rising_rows

Places = Callable[[Expression], Expression]
"""Of a tensor where it is not zero: a row of int64 for each dimension, a column for each place."""


@dataclass(frozen=True)
class Distinct:
    """What is distinct along an axis, int64: where it is first, how often it is there, and which each is."""

    first: Expression
    counts: Expression
    inverse: Expression


def distinct(builder: Any, data: Expression, axis: int, places: Places, *, ordered: bool = False) -> Distinct:
    """The slices of ``data`` along ``axis`` that differ, the least first; ``data`` is a variable.

    Where they are ``ordered``, those that differ from the one before, in their own order.
    """
    emit, shape = builder.emit, shape_of(data) or ()
    # Truth values are compared as numbers.
    keys = emit(relax.op.astype(data, "int8")) if dtype_of(data) == "bool" else data
    rows = keys if len(shape) == 1 else _as_rows(emit, keys, axis)
    order = inverse_order = None
    if not ordered:
        in_order = (
            relax.op.argsort(rows, dtype="int64") if len(shape) == 1 else builder.call_te(rising_rows, rows)
        )
        order = emit(in_order)
        inverse_order = emit(relax.op.argsort(order, dtype="int64"))
        rows = emit(relax.op.take(rows, order, 0, mode="clip"))
    starts = _starts(emit, rows)
    indices = emit(relax.op.squeeze(places(starts), [0]))
    group = emit(relax.op.cumsum(starts, 0, "int64"))
    group = emit(relax.op.subtract(group, relax.const(1, "int64")))
    ones, zeros = emit(relax.op.ones_like(group)), emit(relax.op.zeros_like(group))
    sums = emit(relax.op.scatter_elements(zeros, group, ones, 0, "add"))
    counts = first_elements(builder, sums, 0, (shape_of(indices) or ())[0])
    if order is None or inverse_order is None:
        return Distinct(indices, counts, group)
    first = emit(relax.op.take(order, indices, 0, mode="clip"))
    return Distinct(first, counts, emit(relax.op.take(group, inverse_order, 0, mode="clip")))


def _as_rows(emit: Any, data: Expression, axis: int) -> Expression:
    """The slices along an axis as the rows of a matrix."""
    shape = shape_of(data) or ()
    others = [place for place in range(len(shape)) if place != axis]
    moved = emit(relax.op.permute_dims(data, [axis, *others]))
    columns = prod(shape[place] for place in others)
    return emit(relax.op.reshape(moved, relax.ShapeExpr([shape[axis], columns])))


def _starts(emit: Any, rows: Expression) -> Expression:
    """Whether each element, or row, differs from the one before it, or is the first of all, as 0 or 1."""
    shape = shape_of(rows) or ()
    places = emit(relax.op.arange(0, shape[0], 1, "int64"))
    before = emit(relax.op.subtract(places, relax.const(1, "int64")))
    before = emit(relax.op.maximum(before, relax.const(0, "int64")))
    previous = emit(relax.op.take(rows, before, 0, mode="clip"))
    differs = emit(relax.op.astype(emit(relax.op.not_equal(rows, previous)), "int32"))
    if len(shape) > 1:
        differs = emit(relax.op.max(differs, [1]))
    is_first = emit(relax.op.astype(emit(relax.op.equal(places, relax.const(0, "int64"))), "int32"))
    return emit(relax.op.maximum(differs, is_first))
