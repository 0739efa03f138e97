"""Scattering of rows and of elements, by threads that take neighbouring elements of all places."""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from relay_layout.ir import Expression, is_empty, operator_name, rebuild_functions, shape_of, value_of
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute.scattering import COMBINATIONS, scattered, scattered_within

Shape = Sequence[Any]


def scatter_rows(module: tvm.IRModule) -> tvm.IRModule:
    """The module with ``scatter_nd`` for each ``scatter_elements`` whose places are those of whole rows.

    Such are places along the first axis that were broadcast along all others.
    """
    return rebuild_functions(module, lambda function: _Rows().visit_expr(function))


@mutator
class _Rows(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        if operator_name(call) != "scatter_elements" or str(call.attrs.reduction) not in COMBINATIONS:
            return call
        data, places, updates = call.args
        source = value_of(self, places)
        if int(call.attrs.axis) != 0 or source is None or operator_name(source) != "broadcast_to":
            return call
        shape, rows = shape_of(updates), shape_of(source.args[0])
        if shape is None or rows is None or not _are_alike(shape_of(data), shape, but=0):
            return call
        known = _are_alike(shape_of(places), shape) and _are_alike(rows[:1], shape[:1])
        if not known or len(rows) != len(shape) or any(extent != 1 for extent in rows[1:]):
            return call
        column = self.builder_.emit(relax.op.reshape(source.args[0], [rows[0], 1]))
        return relax.op.scatter_nd(data, column, updates, str(call.attrs.reduction))


def scatter_elements_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of a function that scatters element by element along an axis."""
    data, places, updates = call.args
    shape, extents = shape_of(data), shape_of(updates)
    reduction = str(call.attrs.reduction)
    if shape is None or extents is None or reduction not in COMBINATIONS:
        return default_call(builder, call)
    if is_empty(extents):
        return data
    axis = int(call.attrs.axis) % len(shape)
    if not _are_alike(shape, extents, but=axis) or not _are_alike(shape_of(places), extents):
        within = partial(scattered_within, axis=axis, reduction=reduction)
        return builder.call_te(within, data, places, updates, primfunc_name_hint="scatter")

    def cut(tensor: Expression, full: Shape) -> Expression:
        return _reshaped(builder, tensor, [prod(full[:axis]), full[axis], prod(full[axis + 1 :])])

    return _call(builder, cut(data, shape), cut(places, extents), cut(updates, extents), reduction, shape)


def scatter_nd_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of a function that scatters rows: places along several axes become one number."""
    data, places, updates = call.args
    shape, numbers, extents = shape_of(data), shape_of(places), shape_of(updates)
    reduction = str(call.attrs.reduction)
    if shape is None or numbers is None or extents is None or reduction not in COMBINATIONS:
        return default_call(builder, call)
    if is_empty(extents):
        return data
    outer, depth = len(numbers) - 1, numbers[-1]
    if not isinstance(depth, int) or not 0 < depth <= len(shape):
        return default_call(builder, call)
    if not _are_alike([1, *shape[depth:]], [1, *extents[outer:]]):
        return default_call(builder, call)
    count, rows, row = prod(numbers[:-1]), prod(shape[:depth]), prod(shape[depth:])
    if depth > 1:
        numbered = builder.call_te(_numbered, data, places, primfunc_name_hint="rows_numbered")
        places = builder.emit(numbered)
    return _call(
        builder,
        _reshaped(builder, data, [1, rows, row]),
        _reshaped(builder, places, [1, count, 1]),
        _reshaped(builder, updates, [1, count, row]),
        reduction,
        shape,
    )


def _numbered(data: te.Tensor, places: te.Tensor) -> te.Tensor:
    """The rows at places (..., depth) along the first axes by one number; outside, one that no row has."""
    depth = int(places.shape[-1])
    extents = [extent.astype("int64") for extent in data.shape[:depth]]

    def element(*index: tirx.Var) -> Any:
        number, is_within = tirx.const(0, "int64"), tirx.const(True, "bool")
        for axis, extent in enumerate(extents):
            place = places(*index, axis).astype("int64")
            place = tirx.Select(place < 0, place + extent, place)
            is_within = tirx.all(is_within, place >= 0, place < extent)
            number = number * extent + place
        return tirx.Select(is_within, number, prod(extents))

    return te.compute(places.shape[:-1], element, name="rows_numbered")


def _call(
    builder: relax.BlockBuilder,
    data: Expression,
    places: Expression,
    updates: Expression,
    reduction: str,
    shape: Shape,
) -> Expression:
    # A result of another shape would be copied to its place if it is one of the network's.
    compute = partial(scattered, reduction=reduction)
    return builder.call_te(compute, data, places, updates, shape=list(shape), primfunc_name_hint="scatter")


def _reshaped(builder: relax.BlockBuilder, tensor: Expression, shape: Shape) -> Expression:
    if _are_alike(shape_of(tensor), shape):
        return tensor
    return builder.emit(builder.normalize(relax.op.reshape(tensor, shape)))


def _are_alike(one: Shape | None, other: Shape | None, but: int | None = None) -> bool:
    """Whether extents are the same, all or all but that of one axis."""
    if one is None or other is None or len(one) != len(other):
        return False
    pairs = enumerate(zip(one, other, strict=True))
    return all(axis == but or structural_equal(left, right) for axis, (left, right) in pairs)
