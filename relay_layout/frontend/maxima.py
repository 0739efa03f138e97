"""Where the maxima of a sliding window are, for the importers whose poolings give that as well."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from tvm import relax

from relay_layout.ir import Emit, Expression, Extent, dtype_of, is_static, scalar, shape_of


@dataclass(frozen=True)
class SlidingWindow:
    """One number for each spatial dimension, which are a tensor's last.

    Padding is ``before`` and ``after``.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilation: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]

    def pads(self, extents: Sequence[Extent], counts: Sequence[Extent]) -> list[tuple[int, int]]:
        """Padding before and after, so that ``counts`` windows, or more if open, fit into ``extents``."""
        found = []
        for axis, (extent, count) in enumerate(zip(extents, counts, strict=True)):
            if not is_static((extent, count)):
                found.append((self.before[axis], self.most_after(axis)))
                continue
            last = (count - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1
            found.append((self.before[axis], max(0, last - extent - self.before[axis])))
        return found

    def most_after(self, axis: int) -> int:
        """Padding behind which no window begins, as a pooling has that rounds the number of windows up.

        Rounded up, they reach less than a stride beyond the padding there is, and each begins before it.
        """
        span = (self.kernel[axis] - 1) * self.dilation[axis] + 1
        return min(self.after[axis] + self.strides[axis], span) - 1


def padded(emit: Emit, value: Expression, pads: Sequence[tuple[int, int]], fill: float) -> Expression:
    """``value`` with ``pads`` before and after its last dimensions."""
    rank = len(shape_of(value) or ())
    widths = [0] * (2 * (rank - len(pads))) + [width for pair in pads for width in pair]
    return emit(relax.op.nn.pad(value, widths, pad_value=fill)) if any(widths) else value


def places_of_maxima(
    emit: Emit, value: Expression, window: SlidingWindow, counts: Sequence[Extent]
) -> Expression:
    """The place of the first maximum of each of ``counts`` windows, int64, counted along rows of its image.

    ``value`` is (..., spatial dimensions) of floating point. Element k of every window is one slice of the
    image; the slices beside each other have the maximum at the k that is sought.
    """
    rank, shape = len(window.kernel), shape_of(value) or ()
    extents = shape[-rank:]
    # So that every element of the image is above the padding, and above what TVM's argmax starts at.
    lowest = np.finfo(dtype_of(value)).min
    least = float(np.nextafter(lowest, np.zeros_like(lowest)))
    bounded = emit(relax.op.clip(value, least, math.inf))
    image = padded(emit, bounded, window.pads(extents, counts), -math.inf)
    axes = list(range(len(shape) - rank, len(shape)))
    parts, offsets = [], []
    for offset in product(*map(range, window.kernel)):
        begin = [place * step for place, step in zip(offset, window.dilation, strict=True)]
        spans = zip(begin, counts, window.strides, strict=True)
        end = [first + (count - 1) * stride + 1 for first, count, stride in spans]
        parts.append(
            emit(
                relax.op.strided_slice(
                    image, axes, begin, end, list(window.strides), assume_inbound=not is_static(counts)
                )
            )
        )
        offsets.append(begin)
    chosen = emit(relax.op.argmax(emit(relax.op.stack(parts, axis=0)), axis=0))
    steps = [math.prod(extents[axis + 1 :]) for axis in range(rank)]
    within, corners = None, None
    for axis, (count, step) in enumerate(zip(counts, steps, strict=True)):
        along = [1] * rank
        along[axis] = count
        first = _every(emit, count, window.strides[axis], window.before[axis])
        column = _scaled(emit, emit(relax.op.reshape(first, relax.ShapeExpr(along))), step)
        offset = _scaled(emit, relax.const(np.array([begin[axis] for begin in offsets]), "int64"), step)
        corners = column if corners is None else emit(relax.op.add(corners, column))
        within = offset if within is None else emit(relax.op.add(within, offset))
    return emit(relax.op.add(emit(relax.op.take(within, chosen, axis=0, mode="clip")), corners))


def _every(emit: Emit, count: Extent, stride: int, before: int) -> Expression:
    """``count`` numbers from ``-before`` on, ``stride`` apart."""
    if isinstance(count, int):
        return relax.const(np.arange(count) * stride - before, "int64")
    number = emit(relax.op.arange(0, count, 1, "int64"))
    scaled = emit(relax.op.multiply(number, relax.const(stride, "int64")))
    return emit(relax.op.subtract(scaled, relax.const(before, "int64")))


def _scaled(emit: Emit, values: Expression, step: Extent) -> Expression:
    return emit(relax.op.multiply(values, scalar(emit, step)))


__all__ = ["SlidingWindow", "padded", "places_of_maxima"]
