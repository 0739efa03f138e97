"""PyTorch's poolings that TVM's importer lacks, or of which it drops an argument or a result."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.maxima import places_of_maxima
from relay_layout.frontend.operators.padding import padded
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.frontend.torch.node import Converter, is_read, value_of
from relay_layout.ir import Expression, Extent, dtype_of, is_static, shape_of


def _numbers(given: Any, rank: int) -> list[int]:
    """One number for each spatial dimension."""
    found = [given] if isinstance(given, int) else list(given)
    return [int(number) for number in (found * rank if len(found) == 1 else found)]


def _window(
    kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int], padding: Sequence[int]
) -> Window:
    """A window with the same padding before and after."""
    sides = tuple(padding)
    return Window(tuple(kernel), tuple(strides), tuple(dilation), sides, sides)


def _max_pool(rank: int) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        kernel = _numbers(node.args[1], rank)
        given = dict(enumerate(node.args))
        stride = _numbers(given.get(2) or kernel, rank)
        padding, dilation = _numbers(given.get(3, 0), rank), _numbers(given.get(4, 1), rank)
        window = _window(kernel, stride, dilation, padding)
        # TVM's own rounding up gives extents with conditions in them.
        behind = list(window.reaching_up().after) if given.get(5, False) else padding
        pool = getattr(importer, f"_max_pool{rank}d_impl")
        results = [emit(pool(value, kernel, stride, [*padding, *behind], dilation, False))]
        if is_read(node, 1):
            counts = (shape_of(results[0]) or ())[-rank:]
            results.append(places_of_maxima(emit, value, window, counts))
        return emit(relax.Tuple(results))

    return convert


def _average_pool(rank: int) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        given = dict(enumerate(node.args))
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        divisor = given.get(6, node.kwargs.get("divisor_override"))
        rounds_up = given.get(4, False)
        # TVM's own rounding up gives open extents with conditions in them.
        if divisor is None and not (rounds_up and not is_static((shape_of(value) or ())[-rank:])):
            return getattr(importer, f"_avg_pool{rank}d")(node)
        if divisor is not None and "float" not in dtype_of(value):
            raise ModelError(f"node '{node.name}': a divisor for means of integers is not supported")
        kernel = _numbers(node.args[1], rank)
        stride, padding = _numbers(given.get(2) or kernel, rank), _numbers(given.get(3, 0), rank)
        window = _window(kernel, stride, [1] * rank, padding)
        behind = list(window.reaching_up().after) if rounds_up else padding
        pool = getattr(importer, f"_avg_pool{rank}d_impl")
        if divisor is None:
            if given.get(5, True):
                # Padding counts, and what windows reach behind it does not.
                value = padded(emit, value, [(width, width) for width in padding], 0.0)
                behind = [most - width for most, width in zip(behind, padding, strict=True)]
                padding = [0] * rank
            return pool(value, kernel, stride, [*padding, *behind], False, False)
        image = padded(emit, value, list(zip(padding, behind, strict=True)), 0.0)
        factor = relax.const(math.prod(kernel) / divisor, str(value.ty.dtype))
        return emit(relax.op.multiply(pool(image, kernel, stride, 0, False, True), factor))

    return convert


def _adaptive_max_pool(rank: int) -> Converter:
    """The maximum along one dimension after the other, each of parts that may overlap by one element."""

    def convert(node: Any, importer: Any) -> Expression:
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        counts = [value_of(importer, count) for count in node.args[1]]
        axes = range(len(shape_of(value) or ()) - rank, len(shape_of(value) or ()))
        if is_read(node, 1):
            return emit(relax.Tuple(_maxima_and_places(importer, value, axes, counts)))
        if set(map(str, counts)) == {"1"}:
            return emit(relax.Tuple([emit(relax.op.max(value, axis=list(axes), keepdims=True))]))
        for axis, count in zip(axes, counts, strict=True):
            places = _parts(importer, (shape_of(value) or ())[axis], count)
            if places is not None:
                parts = emit(relax.op.take(value, places, axis=axis, mode="clip"))
                value = emit(relax.op.max(parts, axis=[axis + 1]))
        return emit(relax.Tuple([value]))

    return convert


def _maxima_and_places(
    importer: Any, value: Expression, axes: Sequence[int], counts: Sequence[Extent]
) -> list[Expression]:
    """The maxima of parts, and where each is first, int64, counted along the rows of its image.

    The last dimension comes first: of equal elements the one of the first row counts.
    """
    emit, shape = importer.block_builder.emit, list(shape_of(value) or ())
    inner = shape[axes[0] :]
    places = emit(relax.op.arange(0, math.prod(inner), 1, "int64"))
    places = emit(relax.op.reshape(places, relax.ShapeExpr([*[1] * axes[0], *inner])))
    places = emit(relax.op.broadcast_to(places, relax.ShapeExpr(shape)))
    for axis, count in reversed(list(zip(axes, counts, strict=True))):
        index = _parts(importer, shape[axis], count)
        if index is None:
            continue
        parts, of_parts = (emit(relax.op.take(one, index, axis=axis, mode="clip")) for one in (value, places))
        value = emit(relax.op.max(parts, axis=[axis + 1]))
        chosen = emit(relax.op.argmax(parts, axis=axis + 1, keepdims=True))
        # TVM finds -1 where all are as low as what it starts at.
        chosen = emit(relax.op.maximum(chosen, relax.const(0, "int64")))
        found = emit(relax.op.gather_elements(of_parts, chosen, axis=axis + 1))
        places = emit(relax.op.squeeze(found, [axis + 1]))
    return [value, places]


def _adaptive_average_pool(rank: int) -> Converter:
    """To open extents: the mean along one dimension after the other."""

    def convert(node: Any, importer: Any) -> Expression:
        counts = [value_of(importer, count) for count in node.args[1]]
        if is_static(counts):
            return getattr(importer, f"_adaptive_avg_pool{rank}d")(node)
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        dimensions = len(shape_of(value) or ())
        for axis, count in zip(range(dimensions - rank, dimensions), counts, strict=True):
            extent = (shape_of(value) or ())[axis]
            if isinstance(count, int) and count == 1:
                value = emit(relax.op.mean(value, axis=[axis], keepdims=True))
                continue
            places = _parts(importer, extent, count)
            if places is not None:
                parts = emit(relax.op.take(value, places, axis=axis, mode="clip"))
                count, longest = shape_of(places) or ()
                weights = _shares(importer, extent, count, longest, dtype_of(value))
                spread = [count, longest, *[1] * (dimensions - axis - 1)]
                shares = emit(relax.op.reshape(weights, relax.ShapeExpr(spread)))
                value = emit(relax.op.sum(emit(relax.op.multiply(parts, shares)), axis=[axis + 1]))
        return value

    return convert


def _bounds(part: Any, extent: Extent, count: Extent) -> tuple[Any, Any]:
    """Where a part begins and ends of ``extent`` elements in ``count`` parts."""
    return tirx.floordiv(part * extent, count), tirx.floordiv((part + 1) * extent + count - 1, count)


def _parts(importer: Any, extent: Extent, count: Extent) -> Expression | None:
    """The elements of each part, int64 [count,longest]; a shorter part has its last element again.

    None where each element is a part of its own.
    """
    if count is extent or count == extent:
        return None
    if is_static((extent, count)):
        starts = [index * extent // count for index in range(count)]
        ends = [-(-(index + 1) * extent // count) for index in range(count)]
        longest = max(end - start for start, end in zip(starts, ends, strict=True))
        index = [
            [min(start + step, end - 1) for step in range(longest)]
            for start, end in zip(starts, ends, strict=True)
        ]
        return relax.const(np.array(index), "int64")

    def compute(extent: Extent, count: Extent) -> te.Tensor:
        def place(part: Any, step: Any) -> Any:
            start, end = _bounds(part, extent, count)
            return tirx.Cast("int64", tirx.min(start + step, end - 1))

        return te.compute((count, tirx.floordiv(extent - 1, count) + 2), place, name="parts")

    return importer.block_builder.emit_te(compute, extent, count, primfunc_name_hint="parts")


def _shares(importer: Any, extent: Extent, count: Extent, longest: Extent, dtype: str) -> Expression:
    """What each of the elements of :func:`_parts` counts in the mean of its part."""

    def compute(extent: Extent, count: Extent, longest: Extent) -> te.Tensor:
        def share(part: Any, step: Any) -> Any:
            start, end = _bounds(part, extent, count)
            length = tirx.Cast(dtype, end - start)
            return tirx.Select(step < end - start, tirx.const(1, dtype) / length, tirx.const(0, dtype))

        return te.compute((count, longest), share, name="shares")

    return importer.block_builder.emit_te(compute, extent, count, longest, primfunc_name_hint="shares")


CONVERTERS: dict[str, Converter] = {
    "max_pool2d_with_indices.default": _max_pool(2),
    "max_pool3d_with_indices.default": _max_pool(3),
    "avg_pool2d.default": _average_pool(2),
    "avg_pool3d.default": _average_pool(3),
    "_adaptive_avg_pool2d.default": _adaptive_average_pool(2),
    "_adaptive_avg_pool3d.default": _adaptive_average_pool(3),
    "adaptive_max_pool2d.default": _adaptive_max_pool(2),
    "adaptive_max_pool3d.default": _adaptive_max_pool(3),
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
