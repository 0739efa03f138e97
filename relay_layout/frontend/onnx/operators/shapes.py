"""ONNX operators that move, join or pick elements without computing with them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx

from relay_layout.frontend.extents.arithmetic import product, same, simplify
from relay_layout.frontend.extents.factors import without_shared
from relay_layout.frontend.onnx.agreement import with_extents
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.slicing import from_the_front
from relay_layout.frontend.operators.ranges import open_range
from relay_layout.frontend.operators.scattering import scattered
from relay_layout.frontend.values import (
    Array,
    Extents,
    Unsupported,
    Value,
    dtype_of,
    extents,
    shape_of,
    written,
)
from relay_layout.ir import Extent, is_static, known_to_differ


def _identity(node: Node) -> Value:
    return node.input(0)


def _dropout(node: Node) -> Value:
    ratio, training = (node.inputs[place] if len(node.inputs) > place else None for place in (1, 2))
    drops = not isinstance(ratio, np.ndarray) or ratio.any()
    if training is not None and drops and (not isinstance(training, np.ndarray) or training.any()):
        raise Unsupported("works in training mode, or may at run time; export the network in inference mode")
    if len(node.outputs) < 2 or not node.outputs[1]:
        return node.input(0)
    shape = shape_of(node.input(0))
    if not is_static(shape):
        raise Unsupported(
            "has its output mask in use for a symbolic shape, which is not supported: "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    dtype = "bool" if node.opset >= 10 else dtype_of(node.input(0))
    return [node.input(0), np.ones(shape, dtype)]


def _reshape(node: Node) -> Value:
    shape = shape_of(node.input(0))
    goal = list(node.attributes.get("shape", ())) if node.opset < 5 else node.extents(1)
    if not node.attributes.get("allowzero", 0):
        if any(
            extent == 0 and axis >= len(shape) for axis, extent in enumerate(goal) if isinstance(extent, int)
        ):
            raise Unsupported(f"cannot reshape {written(shape)} to {written(goal)}")
        goal = [
            shape[axis] if isinstance(extent, int) and extent == 0 else extent
            for axis, extent in enumerate(goal)
        ]
    return node.reshaped(node.input(0), _resolved(node, shape, goal))


def _resolved(node: Node, shape: list[Extent], goal: list[Extent]) -> list[Extent]:
    """``goal`` with its -1 worked out; Unsupported where the numbers of elements differ."""
    inferred = [axis for axis, extent in enumerate(goal) if isinstance(extent, int) and extent == -1]
    failure = Unsupported(f"cannot reshape {written(shape)} to {written(goal)}")
    if len(inferred) > 1 or any(isinstance(extent, int) and extent < -1 for extent in goal):
        raise failure
    if not inferred:
        total, wanted = map(product, without_shared(shape, goal))
        if known_to_differ(total, wanted):
            raise failure
        node.requirements.equal(total, wanted)
        return goal
    rest = [extent for extent in goal if not (isinstance(extent, int) and extent == -1)]
    total, known = map(product, without_shared(shape, rest))
    if isinstance(known, int) and (known == 0 or (isinstance(total, int) and total % known)):
        raise failure
    if not (isinstance(known, int) and known == 1):
        node.requirements.divisible(total, known)
    resolved = list(goal)
    resolved[inferred[0]] = total if isinstance(known, int) and known == 1 else simplify(total // known)
    return resolved


def _flatten(node: Node) -> Value:
    shape = shape_of(node.input(0))
    axis = node.attributes.get("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise Unsupported(f"has axis {axis} where there are {len(shape)} dimensions")
    axis = axis + len(shape) if axis < 0 else axis
    return node.reshaped(node.input(0), [product(shape[:axis]), product(shape[axis:])])


def _squeeze(node: Node) -> Value:
    shape = shape_of(node.input(0))
    axes = _axes(node)
    if axes is None:
        for extent in shape:
            if not isinstance(extent, int):
                # There would be a dimension less.
                node.requirements.other_than(extent, 1)
        axes = [axis for axis, extent in enumerate(shape) if isinstance(extent, int) and extent == 1]
    axes = node.axes(axes, len(shape))
    ones = {axis: 1 for axis in axes}
    data = with_extents(node, node.input(0), [ones.get(axis, extent) for axis, extent in enumerate(shape)])
    for axis in axes if data is None else ():
        if isinstance(shape[axis], int) and shape[axis] != 1:
            raise Unsupported(f"removes axis {axis} of {written(shape)}, whose extent is not 1")
    return relax.op.squeeze(node.expression(data), axes) if axes else data


def _unsqueeze(node: Node) -> Value:
    axes = _axes(node)
    if not axes:
        return node.input(0)
    rank = len(shape_of(node.input(0))) + len(axes)
    return relax.op.expand_dims(node.tensor(0), node.axes(axes, rank))


def _axes(node: Node) -> list[int] | None:
    """Axes of Squeeze and Unsqueeze: an input from opset 13 on."""
    if node.opset < 13:
        given = node.attributes.get("axes")
        return None if given is None else list(given)
    return [int(axis) for axis in node.constant(1).reshape(-1)] if node.has(1) else None


def _transpose(node: Node) -> Value:
    rank = len(shape_of(node.input(0)))
    order = list(node.attributes.get("perm", ())) or list(range(rank))[::-1]
    if sorted(order) != list(range(rank)):
        raise Unsupported(f"has perm {order} for {rank} dimensions")
    return node.input(0) if order == list(range(rank)) else relax.op.permute_dims(node.tensor(0), order)


def _concat(node: Node) -> Value:
    shape = shape_of(node.input(0))
    axis = node.axis_given(len(shape), default=1 if node.opset < 4 else 0)
    return joined(node, [value for value in node.inputs if value is not None], axis)


def joined(node: Node, tensors: Sequence[Value], axis: int) -> Value:
    """One tensor or more, of one rank, as one along ``axis``, which is counted from the front."""
    # Old exporters join an empty 1-D tensor to others, along whatever axis.
    shapes = map(shape_of, tensors)
    filled = [
        value
        for value, shape in zip(tensors, shapes, strict=True)
        if 0 not in _static(shape[axis : axis + 1] or shape)
    ] or [tensors[0]]
    if len(filled) == 1:
        return filled[0]
    return relax.op.concat([node.expression(value) for value in filled], axis=axis)


def _static(shape: Sequence[Extent]) -> list[int]:
    return [extent for extent in shape if isinstance(extent, int)]


def _expand(node: Node) -> Value:
    shape = shape_of(node.input(0))
    goal = _broadcast(node, shape, node.extents(1))
    if len(goal) == len(shape) and all(map(same, goal, shape)):
        return node.input(0)
    return relax.op.broadcast_to(node.tensor(0), relax.ShapeExpr(goal))


def _broadcast(node: Node, left: Sequence[Extent], right: Sequence[Extent]) -> list[Extent]:
    rank = max(len(left), len(right))
    pairs = zip([1] * (rank - len(left)) + list(left), [1] * (rank - len(right)) + list(right), strict=True)
    result = []
    for one, other in pairs:
        if isinstance(one, int) and one == 1:
            result.append(other)
        elif (isinstance(other, int) and other == 1) or node.requirements.assume_equal(one, other):
            result.append(one)
        else:
            raise Unsupported(f"cannot broadcast {written(left)} with {written(right)}")
    return result


def _tile(node: Node) -> Value:
    shape = shape_of(node.input(0))
    repeats = node.extents(1) if node.opset >= 6 else _repeats_along_axis(node, len(shape))
    numbers = [count for count in repeats if isinstance(count, int)]
    if len(repeats) != len(shape) or min(numbers, default=0) < 0:
        raise Unsupported(f"repeats {written(shape)} by {written(repeats)}")
    if all(same(count, 1) for count in repeats):
        return node.input(0)
    if is_static(repeats):
        return relax.op.tile(node.tensor(0), repeats)
    pairs = list(zip(repeats, shape, strict=True))
    apart = node.reshaped(node.input(0), [size for _, extent in pairs for size in (1, extent)])
    copies = relax.op.broadcast_to(
        node.expression(apart), relax.ShapeExpr([size for pair in pairs for size in pair])
    )
    return node.reshaped(node.emit(copies, "copies"), [simplify(count * extent) for count, extent in pairs])


def _repeats_along_axis(node: Node, rank: int) -> list[Extent]:
    """How often each axis is repeated by Tile of opset 1, whose inputs are one number and one axis."""
    count, axis = (int(node.constant(place).item()) for place in (1, 2))
    repeated = node.axis(axis, rank)
    return [count if index == repeated else 1 for index in range(rank)]


def _shape(node: Node) -> Value:
    shape = shape_of(node.input(0))
    return extents(shape[node.attributes.get("start", 0) : node.attributes.get("end", len(shape))])


def _size(node: Node) -> Value:
    return extents(product(shape_of(node.input(0))))


def _constant_of_shape(node: Node) -> Value:
    value: Array = node.attributes.get("value", np.zeros(1, "float32"))
    fill = value.reshape(-1)[:1].reshape(())
    return relax.op.broadcast_to(node.expression(fill), relax.ShapeExpr(node.counted_extents(0)))


def _eye_like(node: Node) -> Value:
    """Ones on a diagonal of a matrix of the shape of another."""
    from onnx.helper import tensor_dtype_to_np_dtype

    shape, code = shape_of(node.input(0)), node.attributes.get("dtype")
    if len(shape) != 2:
        raise Unsupported(f"makes a diagonal in {written(shape)}, which is no matrix")
    offset = int(node.attributes.get("k", 0))
    dtype = dtype_of(node.input(0)) if code is None else str(tensor_dtype_to_np_dtype(code))
    if is_static(shape):
        return np.eye(int(shape[0]), int(shape[1]), offset).astype(dtype)
    rows, columns = (
        node.emit(relax.op.arange(start, node.plain(simplify(start + extent)), 1, "int64"), "places")
        for start, extent in zip((offset, 0), shape, strict=True)
    )
    diagonal = node.emit(relax.op.equal(node.emit(relax.op.expand_dims(rows, 1)), columns), "diagonal")
    return relax.op.astype(diagonal, dtype)


_MOST_STEPS = 1 << 31
"""Elements that a range is expected to have at most, where its ends are known at run time."""


def _range_of(node: Node) -> Value:
    if all(isinstance(value, np.ndarray | Extents) for value in node.inputs):
        start, limit, delta = (node.extents(index)[0] for index in range(3))
        if isinstance(delta, tirx.Expr):
            node.requirements.more(delta, 0)
        return open_range(node.emit, start, limit, delta, dtype_of(node.input(0)))
    start, limit, delta = (node.tensor(index) for index in range(3))
    if _is(node.input(0), 0) and _is(node.input(2), 1):
        number = _integer(node, node.input(1))
        count = node.counts.end(number, lambda: _steps(node, number))
        return node.cast(node.emit(relax.op.arange(0, count, 1, "int64"), "places"), dtype_of(limit))
    length = node.emit(relax.op.subtract(limit, start), "length")
    if dtype_of(start).startswith("int"):
        # Rounded up: delta may be negative, too.
        back = node.emit(relax.op.negative(length), "back")
        steps = relax.op.negative(node.emit(relax.op.floor_divide(back, delta), "steps_back"))
    else:
        steps = relax.op.ceil(node.emit(relax.op.divide(length, delta), "parts"))
    count = _steps(node, node.emit(steps, "steps"))
    places = node.cast(node.emit(relax.op.arange(0, count, 1, "int64"), "places"), dtype_of(start))
    return relax.op.add(node.emit(relax.op.multiply(places, delta), "moved"), start)


def _is(value: Value, number: int) -> bool:
    return isinstance(value, np.ndarray) and bool((value == number).all())


def _integer(node: Node, value: Value) -> Value:
    """A number rounded up; the integer itself, where one was converted."""
    for source in node.counts.sources(value):
        if dtype_of(source).startswith("int"):
            return source
    return node.emit(relax.op.ceil(node.expression(value)), "rounded")


def _steps(node: Node, number: Value) -> Any:
    """An extent for as many steps as a number is, for none where it is less than 0."""
    steps = node.emit(node.cast(number, "int64"), "number")
    known = node.emit(relax.op.maximum(steps, relax.const(0, "int64")), "known")
    return node.count(node.emit(relax.op.reshape(known, [1]), "count"), _MOST_STEPS)


def _cumulative(operator: Callable[..., Any]) -> Converter:
    def convert(node: Node) -> Value:
        data = node.tensor(0)
        axis = node.axis(int(node.constant(1).reshape(-1)[0]), len(shape_of(data)))
        exclusive = bool(node.attributes.get("exclusive", 0))
        if not node.attributes.get("reverse", 0):
            return operator(data, axis, exclusive=exclusive)
        total = operator(relax.op.flip(data, axis), axis, exclusive=exclusive)
        return relax.op.flip(node.emit(total, "backwards"), axis)

    return convert


def _one_hot(node: Node) -> Value:
    (depth,), values = node.extents(1), node.input(2)
    depth = int(depth) if isinstance(depth, np.floating) else depth
    if isinstance(depth, int) and depth < 1:
        raise Unsupported(f"has {depth} classes, where 1 or more are due")
    indices = node.input(0)
    rank = len(shape_of(indices)) + 1
    axis = node.axis_given(rank, default=-1)
    if isinstance(values, Extents) and isinstance(indices, np.ndarray) and isinstance(depth, int):
        # Exporters write so how often each axis is repeated.
        numbers = indices.astype("int64")
        front = np.where(numbers < 0, numbers + depth, numbers)
        is_hot = np.moveaxis(front[..., None] == np.arange(depth), -1, axis)
        return extents(values.array.reshape(-1)[is_hot.astype("int64")], values.dtype)
    if not dtype_of(indices).startswith("int"):
        indices = node.emit(node.cast(indices, "int64"), "indices")
    indices = from_the_front(node, node.expression(indices), depth)
    if isinstance(depth, int) and isinstance(values, np.ndarray):
        off, on = (tirx.const(number.item(), str(values.dtype)) for number in values.reshape(-1))
        return relax.op.one_hot(indices, on, off, depth, axis)
    off, on = _numbers_apart(node, values)
    places = node.places(depth, dtype_of(indices))
    along = node.reshaped(places, [depth if index == axis else 1 for index in range(rank)])
    apart = node.emit(relax.op.expand_dims(indices, axis), "indices")
    return relax.op.where(node.emit(relax.op.equal(apart, node.emit(along)), "hot"), on, off)


def _numbers_apart(node: Node, pair: Value) -> Any:
    """Both elements of a vector as scalars."""
    if isinstance(pair, np.ndarray):
        return [node.expressions.scalar(number.item(), str(pair.dtype)) for number in pair.reshape(-1)]
    whole = node.emit(node.expression(node.reshaped(pair, [2])), "pair")
    return [node.emit(relax.op.take(whole, relax.const(place, "int64"), 0), "number") for place in (0, 1)]


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _reduction(node: Node) -> str:
    """How Relax calls the node's way to put several updates together."""
    reduction = str(node.attributes.get("reduction", "none"))
    if reduction not in _REDUCTIONS:
        raise Unsupported(f"has the unknown reduction '{reduction}'")
    return _REDUCTIONS[reduction]


def _scatter_elements(node: Node) -> Value:
    data, index, updates = (node.tensor(place) for place in range(3))
    axis = node.axis_given(len(shape_of(data)), default=0)
    return scattered(node.emit, data, index, updates, axis, _reduction(node))


def _scatter_nd(node: Node) -> Value:
    shape, places, given = (shape_of(node.input(index)) for index in range(3))
    depth = places[-1] if places else None
    if not isinstance(depth, int) or not 0 < depth <= len(shape):
        raise Unsupported(f"writes to {written(shape)} at indices {written(places)}")
    due = [*places[:-1], *shape[depth:]]
    if len(given) != len(due) or not all(map(node.requirements.assume_equal, given, due)):
        raise Unsupported(f"writes {written(given)} where {written(due)} is due")
    indices = node.tensor(1)
    if not node.is_natural(1):
        ends = node.emit(node.expression(extents(shape[:depth], dtype_of(indices))), "ends")
        moved = node.emit(relax.op.add(indices, ends), "moved")
        is_negative = node.emit(relax.op.less(indices, node.like(0, indices)), "is_negative")
        indices = node.emit(relax.op.where(is_negative, moved, indices), "indices")
    updates = node.expression(node.reshaped(node.input(2), due))
    return relax.op.scatter_nd(node.tensor(0), indices, updates, _reduction(node))


CONVERTERS: dict[str, Converter] = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "CumProd": _cumulative(relax.op.cumprod),
    "CumSum": _cumulative(relax.op.cumsum),
    "Dropout": _dropout,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Identity": _identity,
    "OneHot": _one_hot,
    "Range": _range_of,
    "Reshape": _reshape,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": _size,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
