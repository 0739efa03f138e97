"""ONNX operators that pick elements, as many as the data say."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import clamped, product
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.operators.distinct import distinct
from relay_layout.frontend.operators.ranking import best_elements, first_elements
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Constant, Extent, constant_array, is_empty, is_static
from topi_ext.compute.boxes import from_center, from_corners, suppress_every_class
from topi_ext.compute.nonzero import places_of_nonzero


def _nonzero(node: Node) -> Value:
    if not shape_of(node.input(0)):
        raise Unsupported("lists a scalar, which is not supported: give it one dimension by Unsqueeze")
    data = node.tensor(0)
    shape = shape_of(data)
    if len(shape) == 1 and _is_all_nonzero(node, data):
        return node.reshaped(node.places(shape[0]), [1, shape[0]])
    return _places(node, data)


def _is_all_nonzero(node: Node, data: Any) -> bool:
    """Whether one number that is not zero was repeated, as PyTorch's older exporter does to count places."""
    made = node.builder.lookup_binding(data) if isinstance(data, relax.Var) else None
    if not isinstance(made, relax.Call) or made.op.name != "relax.broadcast_to":
        return False
    fill = made.args[0]
    return isinstance(fill, Constant) and bool(constant_array(fill).all())


def _places(node: Node, data: Any) -> Any:
    """Where ``data`` is not zero, int64: a row for each of its dimensions, a column for each place."""

    def found() -> Any:
        most = product(shape_of(data))
        places = node.emit(node.builder.call_te(places_of_nonzero, data), "places")
        number = node.count(node.emit(relax.TupleGetItem(places, 1), "count"), most)
        room = node.emit(relax.TupleGetItem(places, 0), "room")
        return node.emit(first_elements(node.builder, room, 1, number), "found")

    return node.counts.places(data, found)


def _compress(node: Node) -> Value:
    data, axis = node.tensor(0), node.attributes.get("axis")
    shape = shape_of(data)
    if axis is None:
        data, shape, axis = node.emit(node.reshaped(data, [product(shape)]), "flat"), [product(shape)], 0
    axis = node.axis(axis, len(shape))
    length = shape_of(node.input(1))
    if len(length) != 1:
        raise Unsupported(f"has a condition {written(length)}, which should have one dimension")
    if isinstance(length[0], int) and isinstance(shape[axis], int) and length[0] > shape[axis]:
        raise Unsupported(f"has a condition of {length[0]} elements for an axis of {shape[axis]}")
    places = _places(node, node.tensor(1))
    return relax.op.take(data, node.emit(relax.op.squeeze(places, [0]), "indices"), axis, mode="clip")


def _unique(node: Node) -> Value:
    """Elements, or slices along an axis, that differ; where each is first, which each is, how often."""
    shape, axis = shape_of(node.input(0)), node.attributes.get("axis")
    if axis is None:
        axis, shape = 0, [product(shape)]
    axis = node.axis(axis, len(shape))
    data = node.emit(node.expression(node.reshaped(node.input(0), shape)), "data")
    # An extent that is computed of what the data decide is a variable.
    data = node.counts.sized(data, "data")
    found = distinct(node.builder, data, axis, partial(_places, node))
    first, inverse, counts = found.first, found.inverse, found.counts
    if not node.attributes.get("sorted", 1):
        rank = node.emit(relax.op.argsort(first, dtype="int64"), "rank")
        first, counts = (
            node.emit(relax.op.take(tensor, rank, 0, mode="clip"), "ranked") for tensor in (first, counts)
        )
        ranked = node.emit(relax.op.argsort(rank, dtype="int64"), "places")
        inverse = node.emit(relax.op.take(ranked, inverse, 0, mode="clip"), "inverse")
    return [relax.op.take(data, first, axis, mode="clip"), first, inverse, counts]


_NUMBER_IS_INPUT_SINCE = 10
"""Opset of TopK."""


def _top(node: Node) -> Value:
    """TopK; their number may be one that the sizes of inputs tell at run time."""
    data, shape = node.tensor(0), shape_of(node.input(0))
    axis = node.axis_given(len(shape), default=-1)
    largest = bool(node.attributes.get("largest", 1))
    if node.opset < _NUMBER_IS_INPUT_SINCE:
        count: Extent = int(node.attributes["k"])
    else:
        (count,) = node.counted_extents(1)
    if isinstance(count, int) and isinstance(shape[axis], int) and count > shape[axis]:
        raise Unsupported(f"asks for {count} elements of axis {axis} of {written(shape)}")
    node.requirements.no_more(count, shape[axis])
    given = [count if place == axis else extent for place, extent in enumerate(shape)]
    if is_empty(given):
        # Of Relax's it would be all.
        return [relax.op.zeros(relax.ShapeExpr(given), dtype) for dtype in (dtype_of(data), "int64")]
    if isinstance(count, int) and not node.counts.reads_counts(shape[axis]):
        found = node.emit(relax.op.topk(data, count, axis, "both", largest, "int64"), "best")
        return [relax.TupleGetItem(found, index) for index in range(2)]
    end = node.plain(clamped(count, shape[axis]))
    found = best_elements(node.builder, data, end, axis, largest=largest)
    # Whether there are as many as a number says is told by data alone.
    return (
        [node.reshaped(node.emit(each, "best"), given) for each in found] if isinstance(count, int) else found
    )


def _non_max_suppression(node: Node) -> Value:
    boxes, scores = shape_of(node.input(0)), shape_of(node.input(1))
    if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4 or not _agree(boxes[:2], [scores[0], scores[2]]):
        raise Unsupported(
            f"has boxes {written(boxes)} and scores {written(scores)} where [N,B,4] and [N,C,B] are due"
        )
    limit = node.optional(2)
    if limit is None:
        return np.zeros((0, 3), "int64")
    rows_read = node.rows_read()
    if isinstance(limit, np.ndarray) and rows_read is not None and (scores[0], scores[1]) == (1, 1):
        limit = np.asarray(np.minimum(limit, rows_read))
    fixed = int(limit.reshape(-1)[0]) if isinstance(limit, np.ndarray) and limit.size == 1 else None
    most = None if fixed is None or not isinstance(boxes[1], int) else min(max(fixed, 0), boxes[1])
    sides = from_center if node.attributes.get("center_point_box", 0) else from_corners
    found = node.emit(
        node.builder.call_te(
            partial(suppress_every_class, most=most, sides=sides),
            node.tensor(0),
            node.tensor(1),
            _number(node, limit, 2, "int64"),
            _number(node, node.optional(3), 3, "float32", 0.0),
            _number(node, node.optional(4), 4, "float32", -np.inf),
            primfunc_name_hint="non_max_suppression",
        ),
        "chosen",
    )
    rooms = product([boxes[0], scores[1], boxes[1] if most is None else most])
    number = node.count(node.emit(relax.TupleGetItem(found, 1), "count"), rooms)
    return first_elements(node.builder, node.emit(relax.TupleGetItem(found, 0), "room"), 0, number)


def _agree(left: Sequence[Extent], right: Sequence[Extent]) -> bool:
    """Whether extents may be equal."""
    return all(one == other for one, other in zip(left, right, strict=True) if is_static((one, other)))


def _number(node: Node, value: Value, index: int, dtype: str, default: float = 0) -> Any:
    """The input ``index``, of one number, as a scalar."""
    value = np.array(default, dtype) if value is None else value
    if product(shape_of(value)) != 1:
        raise Unsupported(f"has {written(shape_of(value))} for its input {index}, which should be one number")
    if isinstance(value, np.ndarray):
        return node.expression(value.astype(dtype).reshape(()))
    scalar = node.reshaped(node.cast(value, dtype), [])
    return node.emit(scalar, "number") if isinstance(scalar, relax.Call) else scalar


CONVERTERS: dict[str, Converter] = {
    "Compress": _compress,
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _nonzero,
    "TopK": _top,
    "Unique": _unique,
}
