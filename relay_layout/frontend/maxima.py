"""Where the maxima of a sliding window are, for the importers whose poolings give that as well."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from tvm import relax

from relay_layout.ir import Emit, Expression, dtype_of, shape_of


@dataclass(frozen=True)
class SlidingWindow:
    """One number for each spatial dimension, which are a tensor's last; ``before`` is the padding there."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilation: Sequence[int]
    before: Sequence[int]

    def pads(self, extents: Sequence[int], counts: Sequence[int]) -> list[tuple[int, int]]:
        """Padding before and after, so that ``counts`` windows fit into ``extents``."""
        found = []
        for axis, (extent, count) in enumerate(zip(extents, counts, strict=True)):
            last = (count - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1
            found.append((self.before[axis], max(0, last - extent - self.before[axis])))
        return found


def padded(emit: Emit, value: Expression, pads: Sequence[tuple[int, int]], fill: float) -> Expression:
    """``value`` with ``pads`` before and after its last dimensions."""
    rank = len(shape_of(value) or ())
    widths = [0] * (2 * (rank - len(pads))) + [width for pair in pads for width in pair]
    return emit(relax.op.nn.pad(value, widths, pad_value=fill)) if any(widths) else value


def places_of_maxima(
    emit: Emit, value: Expression, window: SlidingWindow, counts: Sequence[int]
) -> Expression:
    """The place of the first maximum of each of ``counts`` windows, int64, counted along rows of its image.

    ``value`` is (..., spatial dimensions) of floating point and known spatial extents. Element k of every
    window is one slice of the image; the slices beside each other have the maximum at the k that is sought.
    """
    rank, shape = len(window.kernel), shape_of(value) or ()
    extents = [int(extent) for extent in shape[-rank:]]
    # So that every element of the image is above the padding, and above what TVM's argmax starts at.
    lowest = np.finfo(dtype_of(value)).min
    least = float(np.nextafter(lowest, np.zeros_like(lowest)))
    bounded = emit(relax.op.clip(value, least, math.inf))
    image = padded(emit, bounded, window.pads(extents, counts), -math.inf)
    axes = list(range(len(shape) - rank, len(shape)))
    steps = [math.prod(extents[axis + 1 :]) for axis in range(rank)]
    parts, offsets = [], []
    for offset in product(*map(range, window.kernel)):
        begin = [place * step for place, step in zip(offset, window.dilation, strict=True)]
        spans = zip(begin, counts, window.strides, strict=True)
        end = [first + (count - 1) * stride + 1 for first, count, stride in spans]
        parts.append(emit(relax.op.strided_slice(image, axes, begin, end, list(window.strides))))
        offsets.append(sum(first * step for first, step in zip(begin, steps, strict=True)))
    chosen = emit(relax.op.argmax(emit(relax.op.stack(parts, axis=0)), axis=0))
    within = emit(relax.op.take(relax.const(np.array(offsets), "int64"), chosen, axis=0, mode="clip"))
    corners = np.zeros(tuple(counts), "int64")
    for axis, count in enumerate(counts):
        along = [1] * rank
        along[axis] = count
        first = np.arange(count) * window.strides[axis] - window.before[axis]
        corners += (first * steps[axis]).reshape(along)
    return emit(relax.op.add(within, relax.const(corners, "int64")))


__all__ = ["SlidingWindow", "padded", "places_of_maxima"]
