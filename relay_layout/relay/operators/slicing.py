"""Operators that take elements out of tensors, or put them in, by place."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of, same_extent
from relay_layout.relay.operators import selecting
from relay_layout.relay.operators.agreement import scattered
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import axes_of, axis_of, integer
from relay_layout.relay.operators.carried import CarriedForm
from relay_layout.relay.operators.operator import (
    Exported,
    Operator,
    Scope,
    extents,
    fields_of,
    numbers_of,
    rank_of,
    static_extents,
)
from relay_layout.relay.syntax.tree import Constant as RelayConstant

_LARGEST = 2**63 - 1


def _slice_limits(given: Attributes, rank: int) -> list[tuple[int, int, int, int]]:
    """Axis, begin, end and stride, for every axis that the attributes name, with what they leave out."""
    lists = {
        name: _entries(given[name], name) for name in ("begin", "end", "strides") if given[name] is not None
    }
    if given.slice_mode not in ("end", "size"):
        raise ModelError(f"slice_mode is 'end' or 'size', not '{given.slice_mode[:20]}'")
    begin, end, strides = (lists.get(name, ()) for name in ("begin", "end", "strides"))
    if given.axes is not None:
        axes: Sequence[int] = axes_of(given.axes, rank, "axes")
        if not len(begin) == len(end) == len(axes) >= len(strides):
            raise ModelError("axes, begin, end and strides differ in length")
    else:
        axes = range(rank)
        if max(len(begin), len(end), len(strides)) > rank:
            raise ModelError(f"begin, end or strides have over {rank} entries")
    result = []
    for at, axis in enumerate(axes):
        stride = strides[at] if at < len(strides) and given.slice_mode == "end" else 1
        if stride in (0, None):
            raise ModelError("a stride is 0")
        first = begin[at] if at < len(begin) else None
        last = end[at] if at < len(end) else None
        # Relay leaves out index 0 where a slice goes down and names no end.
        first = (0 if stride > 0 else _LARGEST) if first is None else first
        if last is None or (given.slice_mode == "size" and last < 0):
            last = 0 if stride < 0 else _LARGEST
        elif given.slice_mode == "size":
            last = first + last
        result.append((axis, first, last, stride))
    return result


def _entries(value: Any, name: str) -> tuple[int | None, ...]:
    entries = value if isinstance(value, tuple) else (value,)
    return tuple(None if entry is None else integer(entry, f"every entry of {name}") for entry in entries)


def _within(index: int, extent: int, stride: int) -> int:
    """An index counted from the front and clamped; -1 is before the first, where a slice goes down."""
    index = index + extent if index < 0 else index
    low, high = (0, extent) if stride > 0 else (-1, extent - 1)
    return min(max(index, low), high)


def _strided_slice(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    shape = extents(data)
    kept: list[tuple[int, int, int, int]] = []
    for axis, begin, end, stride in _slice_limits(given, len(shape)):
        extent = shape[axis]
        if isinstance(extent, int):
            first, last = _within(begin, extent, stride), _within(end, extent, stride)
            if (last - first) * stride < 0:
                raise ModelError(f"axis {axis} of extent {extent} has no slice from {begin} to {end}")
            if (first, last, stride) == (0, extent, 1):
                continue
            # A -1 would count from the end again.
            kept.append((axis, first, -extent - 1 if last < 0 else last, stride))
        elif (begin, end, stride) != (0, _LARGEST, 1):
            kept.append((axis, begin, end, stride))
    if not kept:
        return data
    return relax.op.strided_slice(data, *(list(column) for column in zip(*kept, strict=True)))


def _export_strided_slice(call: relax.Call) -> Exported | None:
    lists = [numbers_of(argument) for argument in call.args[1:]]
    if any(entries is None for entries in lists):
        return None
    axes, begin, end = lists[:3]
    assert axes is not None
    strides = lists[3] if len(lists) > 3 else (1,) * len(axes)
    attributes = {"begin": begin, "end": end, "strides": strides, "slice_mode": "end", "axes": axes}
    return Exported([call.args[0]], attributes)


def _prepare_strided_slice(**arguments: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    data = arguments.pop("data")
    for name in ("begin", "end", "strides"):
        value = arguments[name]
        if isinstance(value, RelayConstant):
            arguments[name] = tuple(int(entry) for entry in value.data.reshape(-1))
        elif isinstance(value, int):
            arguments[name] = (value,)
    arguments["strides"] = arguments["strides"] or (1,)
    return [data], arguments


def _strided_set(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, values, *limits = operands
    rank = rank_of(data)
    if rank_of(values) != rank or any(rank_of(limit) != 1 for limit in limits):
        raise ModelError(f"takes values of {rank} dimensions, and begin, end and strides as lists")
    if any(static_extents(limit)[0] > rank for limit in limits):
        raise ModelError(f"begin, end or strides have over {rank} entries")
    wide = [scope.emit(relax.op.astype(limit, "int64")) for limit in limits]
    return scope.builder.call_te(_set_slice, data, values, *wide, primfunc_name_hint="strided_set")


def _set_slice(data: Any, values: Any, begin: Any, end: Any, strides: Any) -> Any:
    """Data where it is outside the slice, else the value that the slice has there; limits are int64."""

    def entry(limits: Any, at: int) -> Any:
        return limits[at] if at < limits.shape[0] else None

    def compute(*index: Any) -> Any:
        inside, places = [], []
        for at, (place, size) in enumerate(zip(index, data.shape, strict=True)):
            extent, here = tirx.Cast("int64", size), tirx.Cast("int64", place)
            step = entry(strides, at)
            step = tirx.IntImm("int64", 1) if step is None else step
            down = step < 0
            first, last = entry(begin, at), entry(end, at)
            first = tirx.Select(down, extent, tirx.IntImm("int64", 0)) if first is None else first
            last = tirx.Select(down, -extent - 1, extent) if last is None else last
            first = tirx.Select(first < 0, first + extent, first)
            last = tirx.Select(last < 0, last + extent, last)
            first = tirx.Select(tirx.all(down, first >= extent), extent - 1, first)
            distance = tirx.Select(down, first - here, here - first)
            within = tirx.Select(down, here > last, here < last)
            stride = tirx.max(tirx.Select(down, -step, step), tirx.IntImm("int64", 1))
            inside += [distance >= 0, within, tirx.floormod(distance, stride) == 0]
            places.append(tirx.floordiv(distance, stride))
        return tirx.if_then_else(tirx.all(*inside), values(*places), data(*index))

    return te.compute(data.shape, compute, name="strided_set")


def _prepare_strided_set(
    data: Any, v: Any, begin: Any, end: Any, strides: Any = None
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    limits = [
        RelayConstant(np.array(limit, "int32")) if isinstance(limit, list | tuple) else limit
        for limit in (begin, end, strides or (1,))
    ]
    return [data, v, *limits], {}


def _like_limits(operands: Sequence[Expression], given: Attributes) -> list[tuple[int, Any]]:
    """The axes that slice_like cuts, and to which extent."""
    shape, wanted = (extents(operand) for operand in operands)
    if given.axes is None:
        axes: Sequence[int] = range(min(len(shape), len(wanted)))
    else:
        axes = axes_of(given.axes, len(shape), "axes")
        if not axes or max(axes) >= len(wanted):
            raise ModelError(
                f"axes {list(axes)} are not all dimensions of the other, which has {len(wanted)}"
            )
    limits = []
    for axis in axes:
        if isinstance(wanted[axis], int) and isinstance(shape[axis], int) and wanted[axis] > shape[axis]:
            raise ModelError(f"axis {axis} is {shape[axis]} long, shorter than {wanted[axis]}")
        if not same_extent(wanted[axis], shape[axis]):
            limits.append((axis, wanted[axis]))
    return limits


def _cut(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    limits = _like_limits(operands, given)
    if not limits:
        return operands[0]
    axes, ends = (list(column) for column in zip(*limits, strict=True))
    return relax.op.strided_slice(operands[0], axes, [0] * len(axes), ends, [1] * len(axes))


_SYMBOLIC_SLICE = CarriedForm("slice_like", "data shape_like", "SliceLikeAttrs", _cut)


def _slice_like(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if all(isinstance(end, int) for _, end in _like_limits(operands, given)):
        return _cut(scope, operands, given)
    return _SYMBOLIC_SLICE(operands, given)


def _take_with_batches(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, indices = operands
    axis = axis_of(given.axis, rank_of(data))
    batches = axis_of(given.batch_dims, rank_of(indices) + 1, "batch_dims")
    if batches > axis or static_extents(data)[:batches] != static_extents(indices)[:batches]:
        raise ModelError(f"batch_dims {given.batch_dims} does not fit axis {axis} and the shapes")
    # "fast" would read what lies beyond the data.
    mode = "clip" if given.mode == "fast" else given.mode
    return scope.builder.call_te(topi.take, data, indices, axis, batches, mode)


_BATCHED_TAKE = CarriedForm("take", "data indices", "TakeAttrs", _take_with_batches)


def _take(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, indices = operands
    if given.mode not in ("clip", "wrap", "fast"):
        raise ModelError(f"mode is 'clip', 'wrap' or 'fast', not '{given.mode[:20]}'")
    if given.axis is None:
        if integer(given.batch_dims, "batch_dims") != 0:
            raise ModelError("batch_dims needs an axis")
        if rank_of(data) != 1:
            data = relax.op.reshape(data, (-1,))
        return relax.op.take(data, indices, 0, given.mode)
    axis = axis_of(given.axis, rank_of(data))
    if given.batch_dims != 0:
        return _BATCHED_TAKE(operands, given)
    return relax.op.take(data, indices, axis, given.mode)


def _export_take(call: relax.Call) -> Mapping[str, Any] | None:
    mode, axis = str(call.attrs.mode), call.attrs.axis
    if mode == "nan" or not _has_extents(call.args[1]):
        return None
    return {"batch_dims": 0, "axis": 0 if axis is None else int(axis), "mode": mode}


def _has_extents(value: Expression) -> bool:
    return isinstance(getattr(value, "ty", None), relax.TensorType)


def _gather(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.gather_elements(*operands, axis_of(given.axis, rank_of(operands[0])))


def _export_axis(call: relax.Call) -> Mapping[str, Any]:
    return {"axis": int(call.attrs.axis)}


def _last_first(scope: Scope, indices: Expression) -> Expression:
    """Indices as Relax has them: of int64, the coordinates of an element along the last axis."""
    rank = rank_of(indices)
    if rank > 1:
        indices = relax.op.permute_dims(indices, [*range(1, rank), 0])
    return scope.emit(relax.op.astype(indices, "int64"))


def _gather_nd(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, indices = operands
    batches = integer(given.batch_dims, "batch_dims")
    if given.index_rank is not None:
        integer(given.index_rank, "index_rank")
    count = extents(indices)[0] if rank_of(indices) else None
    if not isinstance(count, int) or batches < 0 or count + batches > rank_of(data):
        raise ModelError(
            f"{count} coordinates after batch_dims {batches} do not fit {rank_of(data)} dimensions"
        )
    if batches >= rank_of(indices):
        raise ModelError(f"batch_dims {batches} does not fit indices of {rank_of(indices)} dimensions")
    return relax.op.gather_nd(data, _last_first(scope, indices), batches)


def _scatter_elements(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    reductions = ("update", "add", "mul", "mean", "min", "max")
    if given.reduction not in reductions:
        raise ModelError(f"reduction is one of {', '.join(reductions)}, not '{given.reduction[:20]}'")
    return _scattered(operands, given.axis, given.reduction)


def _scattered(operands: Sequence[Expression], axis: Any, reduction: str) -> Expression:
    return relax.op.scatter_elements(*operands, axis_of(axis, rank_of(operands[0])), reduction)


def _export_scatter(call: relax.Call) -> Mapping[str, Any]:
    return {"axis": int(call.attrs.axis), "reduction": str(call.attrs.reduction)}


def _scatter_nd(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, indices, updates = operands
    modes = ("update", "add", "mul", "min", "max")
    if given.mode not in modes:
        raise ModelError(f"mode is one of {', '.join(modes)}, not '{given.mode[:20]}'")
    shape, places, values = extents(data), extents(indices), extents(updates)
    count = places[0] if places else None
    if not isinstance(count, int) or not 1 <= count <= len(shape):
        raise ModelError(f"indices have {count} coordinates for {len(shape)} dimensions")
    if len(values) != len(places) - 1 + len(shape) - count:
        raise ModelError(f"updates have {len(values)} dimensions, not {len(places) - 1 + len(shape) - count}")
    return relax.op.scatter_nd(data, _last_first(scope, indices), updates, given.mode)


def _adv_index(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, *indices = (scope.emit(field) for field in fields_of(operands[0]))
    if not 1 <= len(indices) <= rank_of(data):
        raise ModelError(f"takes from 1 to {rank_of(data)} indices, not {len(indices)}")
    if not all("int" in dtype_of(index) for index in indices):
        raise ModelError("takes whole numbers as indices")
    return scope.builder.call_te(topi.adv_index, data, indices)


ROWS = (
    Operator(
        "strided_slice",
        ("data",),
        _strided_slice,
        "StridedSliceAttrs",
        signature="data, begin, end, strides=None, axes=None, slice_mode='end'",
        prepare=_prepare_strided_slice,
        relax_names=("strided_slice",),
        export=_export_strided_slice,
    ),
    Operator(
        "strided_set",
        ("data", "v", "begin", "end", "strides"),
        _strided_set,
        signature="data, v, begin, end, strides=None",
        prepare=_prepare_strided_set,
        carried=True,
    ),
    Operator(
        "slice_like",
        ("data", "shape_like"),
        _slice_like,
        "SliceLikeAttrs",
        signature="data, shape_like, axes=None",
    ),
    Operator(
        "take",
        ("data", "indices"),
        _take,
        "TakeAttrs",
        signature="data, indices, axis=None, batch_dims=0, mode='clip'",
        relax_names=("take",),
        export=_export_take,
    ),
    Operator(
        "gather",
        ("data", "indices"),
        _gather,
        "GatherAttrs",
        signature="data, axis, indices",
        relax_names=("gather_elements",),
        export=_export_axis,
    ),
    Operator("gather_nd", ("data", "indices"), _gather_nd, "GatherNDAttrs", carried=True),
    Operator(
        "scatter_elements",
        ("data", "indices", "updates"),
        _scatter_elements,
        "ScatterElementsAttrs",
        relax_names=("scatter_elements",),
        export=_export_scatter,
    ),
    Operator(
        "scatter",
        ("data", "indices", "updates"),
        lambda scope, operands, given: _scattered(operands, given.axis, "update"),
        "ScatterAttrs",
        signature="data, indices, updates, axis",
    ),
    Operator(
        "scatter_add",
        ("data", "indices", "updates"),
        lambda scope, operands, given: _scattered(operands, given.axis, "add"),
        "ScatterAddAttrs",
        signature="data, indices, updates, axis",
    ),
    Operator(
        "scatter_nd",
        ("data", "indices", "updates"),
        _scatter_nd,
        "ScatterNDAttrs",
        carried=True,
        agreement=scattered,
    ),
    Operator("adv_index", ("*inputs",), _adv_index, carried=True),
    *selecting.ROWS,
)
