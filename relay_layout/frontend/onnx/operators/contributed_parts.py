"""Operators of com.microsoft that read parts of tensors: crops, slices, elements that differ, distances."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import linear, selection
from relay_layout.frontend.operators.regions import averaged_regions
from relay_layout.frontend.values import Unsupported, Value, dtype_of, extents, shape_of, written


class _Samples(NamedTuple):
    """Samples of each crop along an axis: (crops, 1) ``first`` and ``step``, (crops, count) ``inside``."""

    first: Any
    step: Any
    inside: Any

    def at(self, node: Node, steps: float) -> Any:
        """The place so many steps from the first sample."""
        away = node.emit(relax.op.multiply(self.step, node.like(steps, self.step)), "away")
        return node.emit(relax.op.add(self.first, away), "side")


def _samples_along(node: Node, corners: Any, axis: int, last: Any, count: int) -> _Samples:
    """``count`` pixels from one corner to the other, in pixels of an image whose last one is ``last``; a
    single one in the middle.
    """
    begin, end = (
        node.emit(
            relax.op.multiply(node.emit(relax.op.strided_slice(corners, [1], [at], [at + 1]), "side"), last),
            "corner",
        )
        for at in (axis, axis + 2)
    )
    span = node.emit(relax.op.subtract(end, begin), "span")
    middle = node.emit(
        relax.op.add(begin, node.emit(relax.op.multiply(span, node.like(0.5, span)))), "middle"
    )
    first = begin if count > 1 else middle
    step = node.emit(relax.op.multiply(span, node.like(1 / (count - 1) if count > 1 else 0.0, span)), "step")
    numbers = np.arange(count, dtype=dtype_of(corners)).reshape(1, -1)
    moved = node.emit(relax.op.multiply(step, node.expression(numbers)), "moved")
    places = node.emit(relax.op.add(first, moved), "places")
    after = node.emit(relax.op.greater_equal(places, node.like(0.0, places)), "after")
    before = node.emit(relax.op.less_equal(places, last), "before")
    return _Samples(first, step, node.emit(relax.op.logical_and(after, before), "inside"))


def _crops(node: Node) -> Value:
    """Crops of images, whose corners are parts of the images' sides, resized between their corners' pixels.

    Each pixel is one sample of a region, in the middle of its bin; those outside of the image have a number
    of their own.
    """
    shape, size = shape_of(node.input(0)), node.constant(3).reshape(-1)
    mode = node.attributes.get("mode", "bilinear")
    if len(shape) != 4 or len(size) != 2 or mode != "bilinear":
        raise Unsupported(
            f"crops {written(shape)} to {written(size.tolist())} with the mode '{mode}', which is not "
            "supported; images are, by 'bilinear'"
        )
    corners = node.tensor(1)
    dtype = dtype_of(corners)
    lasts = [node.cast(node.expression(extents([side - 1])), dtype) for side in shape[2:]]
    samples = [
        _samples_along(node, corners, axis, node.emit(last, "last"), int(count))
        for axis, (last, count) in enumerate(zip(lasts, size, strict=True))
    ]
    numbers = node.emit(relax.op.expand_dims(node.cast(node.input(2), dtype), 1), "numbers")
    # A bin's middle is half a step behind its begin, a pixel half a pixel behind its own.
    sides = [
        node.emit(relax.op.add(samples[axis].at(node, ends[axis]), node.like(0.5, numbers)), "side")
        for ends in ((-0.5, -0.5), (float(size[0]) - 0.5, float(size[1]) - 0.5))
        for axis in (1, 0)
    ]
    found = averaged_regions(
        node.builder,
        node.tensor(0),
        node.emit(relax.op.concat([numbers, *sides], 1), "regions"),
        (int(size[0]), int(size[1])),
        1.0,
        1,
        moved=True,
    )
    found = node.emit(found, "crops")
    rows = node.emit(relax.op.expand_dims(samples[0].inside, [1, 3]), "rows")
    columns = node.emit(relax.op.expand_dims(samples[1].inside, [1, 2]), "columns")
    both = node.emit(relax.op.logical_and(rows, columns), "inside")
    return relax.op.where(both, found, node.like(node.attributes.get("extrapolation_value", 0.0), found))


def _slices(node: Node) -> Value:
    """Slices of ``size`` elements along a dimension, each a ``step`` behind the one before, as a last one."""
    shape = shape_of(node.input(0))
    axis = node.axis(node.attributes.get("dim", -1), len(shape))
    size, step, extent = int(node.attributes["size"]), int(node.attributes.get("step", 1)), shape[axis]
    if size < 1 or step < 1 or (isinstance(extent, int) and extent < size):
        raise Unsupported(f"cuts axis {axis} of {written(shape)} into slices of {size} with a step of {step}")
    if not isinstance(extent, int):
        node.requirements.more(extent, size - 1)
    begins = relax.op.arange(0, node.plain((extent - size) // step + 1), 1, "int64")
    begins = node.emit(relax.op.multiply(node.emit(begins, "slices"), relax.const(step, "int64")), "begins")
    begins = node.emit(relax.op.expand_dims(begins, 1), "begins")
    places = node.emit(relax.op.add(begins, node.expression(np.arange(size)[None])), "places")
    taken = node.emit(relax.op.take(node.tensor(0), places, axis, mode="clip"), "taken")
    order = [place for place in range(len(shape) + 1) if place != axis + 1]
    return relax.op.permute_dims(taken, [*order, axis + 1])


def _distances(node: Node) -> Value:
    """The distance of each row of a matrix from each row of another, by the rows' product."""
    metric = node.attributes.get("metric", "sqeuclidean")
    left, right = node.tensor(0), node.tensor(1)
    if metric not in ("sqeuclidean", "euclidean") or len(shape_of(left)) != 2 or len(shape_of(right)) != 2:
        raise Unsupported(
            f"has the metric '{metric}' of {written(shape_of(left))} and {written(shape_of(right))}"
        )
    squares = [
        node.emit(
            relax.op.sum(node.emit(relax.op.multiply(rows, rows), "squares"), 1, keepdims=True), "square"
        )
        for rows in (left, right)
    ]
    turned = node.emit(relax.op.permute_dims(right, [1, 0]), "turned")
    doubled = node.emit(relax.op.multiply(turned, node.like(-2.0, turned)), "doubled")
    shared = node.emit(relax.op.matmul(left, doubled), "product")
    other = node.emit(relax.op.permute_dims(squares[1], [1, 0]), "square")
    total = node.emit(relax.op.add(node.emit(relax.op.add(shared, squares[0]), "sum"), other), "sum")
    # Of equal rows rounding may leave less than nothing.
    kept = relax.op.maximum(total, node.like(0.0, total))
    return kept if metric == "sqeuclidean" else relax.op.sqrt(node.emit(kept, "kept"))


def _unique(node: Node) -> Value:
    """Elements that differ, in the order of their first places; which of them each is, and how often."""
    found = replace(node, operator="Unique", attributes={"sorted": 0})
    values, _, inverse, counts = selection.CONVERTERS["Unique"](found)
    return [values, inverse, counts]


def _transposed_convolution(node: Node) -> Value:
    """With padding that is an input."""
    pads = [int(extent) for extent in node.constant(2).reshape(-1)] if node.has(2) else []
    named = dict(node.attributes) | ({"pads": pads} if pads else {})
    inputs = node.input(0), node.input(1), node.optional(3)
    inner = replace(node, operator="ConvTranspose", attributes=named, inputs=inputs, opset=11)
    return linear.CONVERTERS["ConvTranspose"](inner)


CONVERTERS: dict[str, Converter] = {
    "CDist": _distances,
    "ConvTransposeWithDynamicPads": _transposed_convolution,
    "CropAndResize": _crops,
    "UnfoldTensor": _slices,
    "Unique": _unique,
}
