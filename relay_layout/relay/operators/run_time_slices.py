"""Slices and padding whose limits and widths are operands, known when the network runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.counted import WIDE, as_tensor, counted, counting, length_of
from relay_layout.relay.operators.operator import Operator, Scope, extents, rank_of, scalar


def _strided_slice(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    """One axis after the other, by the places that are taken of it."""
    data, begin, end, strides = operands
    if given.slice_mode not in ("end", "size"):
        raise ModelError(f"slice_mode is 'end' or 'size', not '{given.slice_mode[:20]}'")
    count = length_of(begin, "begin")
    if length_of(end, "end") != count or count > rank_of(data):
        raise ModelError("begin and end have one entry for each of the first dimensions")
    shape = as_tensor(scope, extents(data)[:count])
    first, last = (scope.emit(relax.op.astype(limit, WIDE)) for limit in (begin, end))
    if given.slice_mode == "size":
        last = scope.emit(relax.op.where(relax.op.less(last, scalar(0, WIDE)), shape, first + last))
        step = scope.emit(relax.op.ones_like(first))
    else:
        step = _steps(scope, strides, count)
    down = scope.emit(relax.op.less(step, scalar(0, WIDE)))
    # A slice that goes down may end before the first element.
    low = scope.emit(relax.op.where(down, scalar(-1, WIDE), scalar(0, WIDE)))
    first, last = (_within(scope, limit, shape, low) for limit in (first, last))
    span = scope.emit(relax.op.subtract(last, first))
    one = scope.emit(relax.op.where(down, scalar(-1, WIDE), scalar(1, WIDE)))
    beyond = scope.emit(relax.op.subtract(relax.op.add(span, step), one))
    # A stride of 0 must not divide; how many there are is checked to be none.
    still = scope.emit(relax.op.astype(relax.op.equal(step, scalar(0, WIDE)), WIDE))
    divided = scope.emit(relax.op.floor_divide(beyond, relax.op.add(step, still)))
    lengths = scope.emit(relax.op.maximum(divided, scalar(0, WIDE)))
    checked = scope.emit(relax.op.concat([lengths, relax.op.sum(still, [0], True)], 0))
    for axis, length in enumerate(counted(scope, checked, "length", {count: 0})[:count]):
        places = scope.emit(relax.op.multiply(counting(length), _entry(step, axis)))
        data = scope.emit(relax.op.take(data, scope.emit(relax.op.add(places, _entry(first, axis))), axis))
    return data


def _steps(scope: Scope, strides: Expression, count: int) -> Expression:
    """A stride for each axis; those that are left out are 1."""
    named = length_of(strides, "strides")
    if named > count:
        raise ModelError(f"strides have {named} entries, begin and end {count}")
    step = scope.emit(relax.op.astype(strides, WIDE))
    if named < count:
        rest = relax.op.ones(relax.ShapeExpr([count - named]), WIDE)
        step = scope.emit(relax.op.concat([step, scope.emit(rest)], 0))
    return step


def _within(scope: Scope, limits: Expression, shape: Expression, low: Expression) -> Expression:
    """Limits counted from the front, from ``low`` to as far above the last element as that is below 0."""
    negative = relax.op.less(limits, scalar(0, WIDE))
    forward = scope.emit(relax.op.where(negative, relax.op.add(limits, shape), limits))
    high = scope.emit(relax.op.add(shape, low))
    return scope.emit(relax.op.minimum(relax.op.maximum(forward, low), high))


def _entry(numbers: Expression, place: int) -> Expression:
    return relax.op.strided_slice(numbers, [0], [place], [place + 1])


def _pad(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    """One axis after the other, by the places that elements come from; padding comes from none."""
    data, widths, value = operands
    if given.pad_mode != "constant":
        raise ModelError(
            f"pad_mode is '{given.pad_mode[:20]}'; it is 'constant' where the network computes pad_width"
        )
    rank, shape = rank_of(data), extents(data)
    if tuple(extents(widths)) != (rank, 2) or not dtype_of(widths).startswith(("int", "uint")):
        raise ModelError(f"pad_width has no pair of integers for each of {rank} dimensions")
    if rank == 0 or 0 in shape:
        raise ModelError(f"data of {list(shape)} has nothing to pad where the network computes pad_width")
    flat = scope.emit(relax.op.reshape(relax.op.astype(widths, WIDE), [2 * rank]))
    before, after = (
        scope.emit(relax.op.strided_slice(flat, [0], [side], [2 * rank], [2])) for side in range(2)
    )
    held = as_tensor(scope, shape)
    lengths = scope.emit(relax.op.add(relax.op.add(before, held), after))
    inside: Expression | None = None
    for axis, length in enumerate(counted(scope, lengths, "padded")):
        places = scope.emit(relax.op.subtract(counting(length), _entry(before, axis)))
        start, end = scalar(0, WIDE), _entry(held, axis)
        there = relax.op.logical_and(relax.op.greater_equal(places, start), relax.op.less(places, end))
        data = scope.emit(relax.op.take(data, places, axis, "clip"))
        across = [length if place == axis else 1 for place in range(rank)]
        there = scope.emit(relax.op.reshape(there, across))
        inside = there if inside is None else scope.emit(relax.op.logical_and(inside, there))
    filler = scope.emit(relax.op.reshape(relax.op.astype(value, dtype_of(data)), []))
    return relax.op.where(inside, data, filler)


def _prepare_slice(**arguments: Any) -> tuple[list[Any], Mapping[str, Any]]:
    if arguments["axes"] is not None:
        raise ModelError("strided_slice: axes need a begin and an end that are known numbers")
    operands = [arguments[name] for name in ("data", "begin", "end")]
    strides = arguments["strides"]
    nothing = dict.fromkeys(("begin", "end", "strides", "axes"))
    return [*operands, (1,) if strides is None else strides], {
        **nothing,
        "slice_mode": arguments["slice_mode"],
    }


def _prepare_pad(**arguments: Any) -> tuple[list[Any], Mapping[str, Any]]:
    operands = [arguments[name] for name in ("data", "pad_width", "pad_value")]
    return operands, {"pad_width": None, "pad_mode": arguments["pad_mode"]}


ROWS = (
    Operator(
        "dyn.strided_slice",
        ("data", "begin", "end", "strides"),
        _strided_slice,
        "StridedSliceAttrs",
        signature="data, begin, end, strides=None, axes=None, slice_mode='end'",
        prepare=_prepare_slice,
    ),
    Operator(
        "dyn.nn.pad",
        ("data", "pad_width", "pad_value"),
        _pad,
        "PadAttrs",
        signature="data, pad_width, pad_value=0, pad_mode='constant'",
        prepare=_prepare_pad,
    ),
)
