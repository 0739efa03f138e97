"""PyTorch's poolings that TVM's importer lacks, or of which it drops an argument or a result."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, shape_of

Converter = Callable[[Any, Any], Expression]


def _numbers(given: Any, rank: int) -> list[int]:
    """One number for each spatial dimension."""
    found = [given] if isinstance(given, int) else list(given)
    return [int(number) for number in (found * rank if len(found) == 1 else found)]


def _spatial(node: Any, value: Expression, rank: int) -> list[int]:
    extents = (shape_of(value) or ())[-rank:]
    if len(extents) != rank or not all(isinstance(extent, int) for extent in extents):
        raise ModelError(f"node '{node.name}': this pooling takes known extents alone")
    return list(extents)


def _asked(node: Any, place: int) -> bool:
    """Whether the program reads a result of several."""
    return any(len(user.args) < 2 or user.args[1] == place for user in node.users)


def _padded(importer: Any, value: Expression, pads: Sequence[tuple[int, int]], fill: float) -> Expression:
    """``pads`` before and after the last dimensions."""
    rank = len(shape_of(value) or ())
    widths = [0] * (2 * (rank - len(pads))) + [width for pair in pads for width in pair]
    return (
        importer.block_builder.emit(relax.op.nn.pad(value, widths, pad_value=fill)) if any(widths) else value
    )


def _reach(extent: int, count: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """Elements that the last of ``count`` windows lacks after the end."""
    return max(0, (count - 1) * stride + (kernel - 1) * dilation + 1 - extent - padding)


def _max_pool(rank: int) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        kernel = _numbers(node.args[1], rank)
        given = dict(enumerate(node.args))
        stride = _numbers(given.get(2) or kernel, rank)
        padding, dilation = _numbers(given.get(3, 0), rank), _numbers(given.get(4, 1), rank)
        pool = getattr(importer, f"_max_pool{rank}d_impl")
        pooled = pool(value, kernel, stride, padding, dilation, bool(given.get(5, False)))
        results = [pooled]
        if _asked(node, 1):
            results.append(_places(node, importer, value, (kernel, stride, padding, dilation)))
        return emit(relax.Tuple(results))

    return convert


def _places(node: Any, importer: Any, value: Expression, window: tuple[list[int], ...]) -> Expression:
    """Where in its image the first maximum of each window is, counted along rows.

    Element k of every window is one slice of the image; the slices beside each other have the maximum at the
    k that is sought.
    """
    kernel, stride, padding, dilation = window
    rank, emit = len(kernel), importer.block_builder.emit
    extents = _spatial(node, value, rank)
    counts = [int(extent) for extent in node.meta["val"][0].shape[-rank:]]
    pads = [
        (before, _reach(*sizes))
        for before, sizes in zip(
            padding, zip(extents, counts, kernel, stride, padding, dilation, strict=True), strict=True
        )
    ]
    # So that no element of the image is as small as the padding.
    least = float(np.finfo(str(value.ty.dtype)).min)
    image = _padded(importer, emit(relax.op.clip(value, least, math.inf)), pads, -math.inf)
    axes = list(range(len(shape_of(value) or ()) - rank, len(shape_of(value) or ())))
    steps = [math.prod(extents[place + 1 :]) for place in range(rank)]
    parts, offsets = [], []
    for offset in product(*map(range, kernel)):
        begin = [place * step for place, step in zip(offset, dilation, strict=True)]
        end = [
            first + (count - 1) * step + 1 for first, count, step in zip(begin, counts, stride, strict=True)
        ]
        parts.append(emit(relax.op.strided_slice(image, axes, begin, end, stride)))
        offsets.append(sum(first * step for first, step in zip(begin, steps, strict=True)))
    chosen = emit(relax.op.argmax(emit(relax.op.stack(parts, axis=0)), axis=0))
    within = emit(relax.op.take(relax.const(np.array(offsets), "int64"), chosen, axis=0, mode="clip"))
    corners = np.zeros(counts, "int64")
    for place, (count, step, before) in enumerate(zip(counts, stride, padding, strict=True)):
        along = [1] * rank
        along[place] = count
        corners += ((np.arange(count) * step - before) * steps[place]).reshape(along)
    return emit(relax.op.add(within, relax.const(corners, "int64")))


def _average_pool(rank: int) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        given = dict(enumerate(node.args))
        divisor = given.get(6, node.kwargs.get("divisor_override"))
        if divisor is None:
            return getattr(importer, f"_avg_pool{rank}d")(node)
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        kernel = _numbers(node.args[1], rank)
        stride, padding = _numbers(given.get(2) or kernel, rank), _numbers(given.get(3, 0), rank)
        extents, counts = _spatial(node, value, rank), node.meta["val"].shape[-rank:]
        pads = [
            (before, _reach(*sizes))
            for before, sizes in zip(
                padding, zip(extents, counts, kernel, stride, padding, strict=True), strict=True
            )
        ]
        image = _padded(importer, value, pads, 0.0)
        mean = getattr(importer, f"_avg_pool{rank}d_impl")(image, kernel, stride, 0, False, True)
        factor = relax.const(math.prod(kernel) / divisor, str(value.ty.dtype))
        return emit(relax.op.multiply(mean, factor))

    return convert


def _adaptive_max_pool(rank: int) -> Converter:
    """The maximum along one dimension after the other, each of parts that may overlap by one element."""

    def convert(node: Any, importer: Any) -> Expression:
        if _asked(node, 1):
            raise ModelError(f"node '{node.name}': the indices of an adaptive pooling are not supported")
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        dimensions = len(shape_of(value) or ())
        counts = [int(extent) for extent in node.meta["val"][0].shape[-rank:]]
        if set(counts) == {1}:
            axes = list(range(dimensions - rank, dimensions))
            return emit(relax.Tuple([emit(relax.op.max(value, axis=axes, keepdims=True))]))
        for place, (extent, count) in enumerate(zip(_spatial(node, value, rank), counts, strict=True)):
            axis = dimensions - rank + place
            starts = [index * extent // count for index in range(count)]
            ends = [-(-(index + 1) * extent // count) for index in range(count)]
            longest = max(end - start for start, end in zip(starts, ends, strict=True))
            # A shorter part reads its last element again.
            index = [
                [min(start + step, end - 1) for step in range(longest)]
                for start, end in zip(starts, ends, strict=True)
            ]
            if longest == 1 and count == extent:
                continue
            places = relax.const(np.array(index), "int64")
            parts = emit(relax.op.take(value, places, axis=axis, mode="clip"))
            value = emit(relax.op.max(parts, axis=[axis + 1]))
        return emit(relax.Tuple([value]))

    return convert


CONVERTERS: dict[str, Converter] = {
    "max_pool2d_with_indices.default": _max_pool(2),
    "max_pool3d_with_indices.default": _max_pool(3),
    "avg_pool2d.default": _average_pool(2),
    "avg_pool3d.default": _average_pool(3),
    "adaptive_max_pool2d.default": _adaptive_max_pool(2),
    "adaptive_max_pool3d.default": _adaptive_max_pool(3),
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""

__all__ = ["CONVERTERS"]
