"""Scattering of rows and of elements, by threads that take neighbouring elements of all places."""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from relay_layout.ir import Expression, operator_name, rebuild_functions, shape_of
from topi_ext.compute.scattering import REDUCTIONS, scattered

Shape = Sequence[Any]


def scatter_rows(module: tvm.IRModule) -> tvm.IRModule:
    """The module with ``scatter_nd`` for each ``scatter_elements`` whose places are those of whole rows.

    Such are places along the first axis that were broadcast along all others.
    """
    return rebuild_functions(module, lambda variable, function: _Rows().visit_expr(function))


@mutator
class _Rows(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        if operator_name(call) != "scatter_elements" or str(call.attrs.reduction) not in REDUCTIONS:
            return call
        data, places, updates = call.args
        source = self.lookup_binding(places) if isinstance(places, relax.Var) else None
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
    if shape is None or extents is None or reduction not in REDUCTIONS:
        return _default(builder, call)
    axis = int(call.attrs.axis) % len(shape)
    if not _are_alike(shape, extents, but=axis) or not _are_alike(shape_of(places), extents):
        return _default(builder, call)

    def cut(tensor: Expression, full: Shape) -> Expression:
        return _reshaped(builder, tensor, [prod(full[:axis]), full[axis], prod(full[axis + 1 :])])

    return _call(builder, cut(data, shape), cut(places, extents), cut(updates, extents), reduction, shape)


def scatter_nd_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of a function that scatters rows, where places are one number each."""
    data, places, updates = call.args
    shape, numbers, extents = shape_of(data), shape_of(places), shape_of(updates)
    reduction = str(call.attrs.reduction)
    if shape is None or numbers is None or extents is None or reduction not in REDUCTIONS:
        return _default(builder, call)
    outer = len(numbers) - 1
    if numbers[-1] != 1 or not _are_alike([1, *shape[1:]], [1, *extents[outer:]]):
        return _default(builder, call)
    count, row = prod(numbers[:-1]), prod(shape[1:])
    return _call(
        builder,
        _reshaped(builder, data, [1, shape[0], row]),
        _reshaped(builder, places, [1, count, 1]),
        _reshaped(builder, updates, [1, count, row]),
        reduction,
        shape,
    )


def _call(
    builder: relax.BlockBuilder,
    data: Expression,
    places: Expression,
    updates: Expression,
    reduction: str,
    shape: Shape,
) -> Expression:
    compute = partial(scattered, reduction=reduction)
    found = builder.emit(builder.call_te(compute, data, places, updates, primfunc_name_hint="scatter"))
    return _reshaped(builder, found, shape)


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


def _default(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    return call.op.get_attr("FLegalize")(builder, call)


__all__ = ["scatter_elements_call", "scatter_nd_call", "scatter_rows"]
