"""PyTorch's poolings that TVM's importer lacks, or of which it drops an argument or a result."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.maxima import SlidingWindow, padded, places_of_maxima
from relay_layout.ir import Expression, dtype_of, shape_of

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
            _spatial(node, value, rank)
            window = SlidingWindow(kernel, stride, dilation, padding)
            results.append(places_of_maxima(emit, value, window, node.meta["val"][0].shape[-rank:]))
        return emit(relax.Tuple(results))

    return convert


def _average_pool(rank: int) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        given = dict(enumerate(node.args))
        divisor = given.get(6, node.kwargs.get("divisor_override"))
        if divisor is None:
            return getattr(importer, f"_avg_pool{rank}d")(node)
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        if "float" not in dtype_of(value):
            raise ModelError(f"node '{node.name}': a divisor for means of integers is not supported")
        kernel = _numbers(node.args[1], rank)
        stride, padding = _numbers(given.get(2) or kernel, rank), _numbers(given.get(3, 0), rank)
        window = SlidingWindow(kernel, stride, [1] * rank, padding)
        pads = window.pads(_spatial(node, value, rank), node.meta["val"].shape[-rank:])
        image = padded(emit, value, pads, 0.0)
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
