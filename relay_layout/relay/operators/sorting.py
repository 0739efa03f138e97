"""Orders, running totals, and sums over named indices."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, tirx, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of
from relay_layout.ir import scalar as scalar_of
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import axis_of, integer, positive
from relay_layout.relay.operators.carried import CarriedForm
from relay_layout.relay.operators.counted import counted, counting
from relay_layout.relay.operators.elementwise import checked_dtype
from relay_layout.relay.operators.operator import (
    Operator,
    Scope,
    extents,
    fields_of,
    rank_of,
    scalar,
)
from topi_ext.compute.nonzero import places_of_nonzero

_MOST_VALUES = 2**24
"""How many values unique may take."""

_INDEX = "int32"
"""The data type of indices where a call names none."""


def _sort(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.sort(operands[0], axis_of(given.axis, rank_of(operands[0])), not given.is_ascend)


def _export_sort(call: relax.Call) -> Mapping[str, Any]:
    return {"axis": int(call.attrs.axis), "is_ascend": not call.attrs.descending, "dtype": None}


def _argsort(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    axis = axis_of(given.axis, rank_of(operands[0]))
    return relax.op.argsort(operands[0], axis, not given.is_ascend, checked_dtype(given.dtype or _INDEX))


def _export_argsort(call: relax.Call) -> Mapping[str, Any]:
    return {"axis": int(call.attrs.axis), "is_ascend": not call.attrs.descending, "dtype": dtype_of(call)}


def _topk(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    shape = extents(operands[0])
    axis = axis_of(given.axis, len(shape))
    if given.ret_type not in ("both", "values", "indices"):
        raise ModelError(f"ret_type is 'both', 'values' or 'indices', not '{given.ret_type[:20]}'")
    count = integer(given.k, "k")
    if isinstance(shape[axis], int) and count > shape[axis]:
        raise ModelError(f"k is {count}, over the extent {shape[axis]} of axis {axis}")
    dtype = checked_dtype(given.dtype or _INDEX)
    return relax.op.topk(operands[0], max(count, 0), axis, given.ret_type, not given.is_ascend, dtype)


def _export_topk(call: relax.Call) -> Mapping[str, Any]:
    return {
        "k": int(call.attrs.k),
        "axis": int(call.attrs.axis),
        "ret_type": str(call.attrs.ret_type),
        "is_ascend": not call.attrs.largest,
        "dtype": str(call.attrs.dtype),
    }


def topk_results(operands: Sequence[Any], attributes: Mapping[str, Any]) -> int | None:
    """How many tensors "topk" gives: values and places, or one of them."""
    return 2 if attributes.get("ret_type", "both") == "both" else None


def _searchsorted(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    sequence, values = operands
    dtype = checked_dtype(given.dtype or _INDEX)
    if rank_of(sequence) not in (1, rank_of(values)):
        raise ModelError(f"a sequence of {rank_of(sequence)} dimensions does not fit {rank_of(values)}")
    return scope.builder.call_te(topi.searchsorted, sequence, values, given.right, dtype)


def _running(name: str, function: Callable[..., Expression]) -> Operator:
    """cumsum or cumprod."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        data = operands[0]
        axis = None if given.axis is None else axis_of(given.axis, rank_of(data))
        dtype = None if given.dtype is None else checked_dtype(given.dtype)
        if given.exclusive not in (None, 0, 1):
            raise ModelError("exclusive is True or False")
        return function(data, axis, dtype, bool(given.exclusive))

    def export(call: relax.Call) -> Mapping[str, Any]:
        axis, dtype = call.attrs.axis, call.attrs.dtype
        return {
            "axis": None if axis is None else int(axis),
            "dtype": None if dtype is None or not str(dtype) else str(dtype),
            "exclusive": bool(call.attrs.exclusive),
        }

    return Operator(name, ("data",), build, "ScanopAttrs", relax_names=(name,), export=export)


def _unique(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    """The unique values, where each is first, which each entry is, how many there are, and their counts.

    All but the number are as long as the data, with zeros after the last unique value.
    """
    data = operands[0]
    if rank_of(data) != 1:
        raise ModelError("takes a list")
    (size,) = extents(data)
    if isinstance(size, int):
        positive(size, "the length of the data", _MOST_VALUES)
    places = scope.emit(relax.op.astype(scope.emit(counting(size)), "int32"))
    beyond = scalar_of(scope.emit, size)
    beyond = scope.emit(relax.op.astype(beyond, "int32"))
    zeros = relax.op.zeros((size,), "int32")
    order = scope.emit(relax.op.argsort(data, 0, False, "int32"))
    ordered = scope.emit(relax.op.take(data, order, 0))
    one = scalar(1, "int32")
    previous = relax.op.maximum(relax.op.subtract(places, one), scalar(0, "int32"))
    before = relax.op.take(ordered, scope.emit(previous), 0)
    starts = relax.op.astype(relax.op.not_equal(ordered, before), "int32")
    group = scope.emit(relax.op.cumsum(scope.emit(starts), 0))
    outside = relax.op.full((size,), beyond, "int32")
    first = scope.emit(relax.op.scatter_elements(outside, group, order, 0, "min"))
    if not given.sorted:
        # Groups count by their first entry instead of by their value.
        by_place = scope.emit(relax.op.argsort(first, 0, False, "int32"))
        group = scope.emit(relax.op.take(relax.op.scatter_elements(zeros, by_place, places), group, 0))
        first = scope.emit(relax.op.take(first, by_place, 0))
    used = relax.op.less(first, beyond)
    results = [
        relax.op.scatter_elements(relax.op.zeros_like(data), group, ordered),
        relax.op.where(used, first, zeros),
        relax.op.scatter_elements(zeros, order, group),
        relax.op.add(relax.op.max(group, [0], True), one),
    ]
    if given.return_counts:
        ones = relax.op.ones((size,), "int32")
        results.append(relax.op.scatter_elements(zeros, group, ones, 0, "add"))
    return relax.Tuple([scope.emit(result) for result in results])


def _places(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    """The places of what is not zero, one in a row, in their order."""
    found = scope.emit(scope.builder.call_te(places_of_nonzero, operands[0]))
    room, number = (scope.emit(relax.TupleGetItem(found, index)) for index in range(2))
    (count,) = counted(scope, number, "found")
    columns = scope.emit(relax.op.strided_slice(room, [1], [0], [count], assume_inbound=True))
    return relax.op.astype(scope.emit(relax.op.permute_dims(columns, [1, 0])), "int32")


_ARGWHERE = CarriedForm(
    "argwhere",
    "condition",
    None,
    _places,
    result_type=lambda types, given: relax.TensorType(dtype="int32", ndim=2),
)


def _argwhere(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    rank = rank_of(operands[0])
    if rank == 0:
        raise ModelError("takes a tensor of at least one dimension")
    count = tirx.Var("found", "int64")
    scope.equalities.counts.add(count)
    return scope.builder.match_cast(
        scope.emit(_ARGWHERE(operands, given)), relax.TensorType([count, rank], "int32")
    )


def _prepare_unique(
    data: Any, is_sorted: bool = True, return_counts: bool = False
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    return [data], {"sorted": is_sorted, "return_counts": return_counts}


_EQUATION = re.compile(r"[A-Za-z, .]*(->[A-Za-z .]*)?")


def _einsum(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    fields = fields_of(operands[0])
    equation = given.equation
    inputs = equation.split("->")[0].split(",")
    if not _EQUATION.fullmatch(equation) or len(inputs) != len(fields):
        raise ModelError(f"equation '{equation[:40]}' does not fit {len(fields)} tensors")
    return relax.op.einsum(operands[0], equation)


def _export_einsum(call: relax.Call) -> Mapping[str, Any]:
    return {"equation": str(call.attrs.subscripts)}


ROWS = (
    Operator(
        "sort",
        ("data",),
        _sort,
        "ArgsortAttrs",
        signature="data, axis=-1, is_ascend=1",
        relax_names=("sort",),
        export=_export_sort,
    ),
    Operator(
        "argsort",
        ("data",),
        _argsort,
        "ArgsortAttrs",
        signature="data, axis=-1, is_ascend=1, dtype='int32'",
        relax_names=("argsort",),
        export=_export_argsort,
    ),
    Operator(
        "topk",
        ("data",),
        _topk,
        "TopkAttrs",
        signature="data, k=1, axis=-1, ret_type='both', is_ascend=False, dtype='int32'",
        results=topk_results,
        relax_names=("topk",),
        export=_export_topk,
    ),
    Operator(
        "searchsorted",
        ("sorted_sequence", "values"),
        _searchsorted,
        "SearchSortedAttrs",
        carried=True,
    ),
    _running("cumsum", relax.op.cumsum),
    _running("cumprod", relax.op.cumprod),
    Operator("argwhere", ("condition",), _argwhere),
    Operator("einsum", ("*data",), _einsum, "EinsumAttrs", relax_names=("einsum",), export=_export_einsum),
    Operator(
        "unique",
        ("data",),
        _unique,
        "UniqueAttrs",
        signature="data, is_sorted=True, return_counts=False",
        prepare=_prepare_unique,
        results=lambda operands, attributes: 5 if attributes.get("return_counts") else 4,
        carried=True,
    ),
)
