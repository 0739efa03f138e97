"""Where the maxima of a sliding window are, for the importers whose poolings give that as well."""

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_layout.frontend.operators.padding import padded
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.ir import Emit, Expression, Extent, dtype_of, scalar, shape_of


def places_of_maxima(emit: Emit, value: Expression, window: Window, counts: Sequence[Extent]) -> Expression:
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
    offsets, parts = window.elements(emit, image, counts)
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
