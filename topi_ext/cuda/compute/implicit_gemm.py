"""Convolutions of NHWC data as matrix products whose left operand is gathered while it is read.

The loops are padded to whole tiles; what lies outside is zero and is never written.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx

from topi_ext.compute.row_numbers import number_of_row
from topi_ext.cuda.annotation import describe_kernel
from topi_ext.cuda.gemm_knobs import GemmKnobs, padded_depth
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.workloads.convolution import ANNOTATION

PRODUCT = "product"
"""The block that multiplies."""

GATHER = "gather"
"""The block that gives the left operand."""

ROWS = "rows_as_image"
"""The block that sees data of any rank as images of a pixel."""


def padded(workload: GemmConvolution, knobs: GemmKnobs) -> tuple[int, int, int]:
    """Rows, columns and depth in whole tiles; the depth divides among ``split_k`` slices."""
    return (
        _up(workload.rows, knobs.block_m),
        _up(workload.columns, knobs.block_n),
        padded_depth(workload, knobs),
    )


def pack_weight(weight: np.ndarray, workload: GemmConvolution, knobs: GemmKnobs) -> np.ndarray:
    """An OHWI weight (outputs, rows, columns, input channels of a group) as the product reads it.

    Returns (groups, columns, depth) of :func:`padded` extents, zeros outside, in what is multiplied: for
    "tf32" float32 rounded by :func:`rounded_to_tf32`.
    """
    _, columns, depth = padded(workload, knobs)
    result = np.zeros((workload.groups, columns, depth), workload.weight_dtype)
    flat = weight.reshape(workload.groups, workload.columns, workload.depth)
    result[:, : workload.columns, : workload.depth] = flat
    return rounded_to_tf32(result) if workload.dtype == "tf32" else result


def rounded_to_tf32(values: np.ndarray) -> np.ndarray:
    """float32 rounded to the 10 bits of mantissa of TF32, to nearest, ties away from zero, as
    cvt.rna.tf32.f32 does; what is not finite stays as it is.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


def partial_products(
    data: te.Tensor,
    weight: te.Tensor,
    workload: GemmConvolution,
    knobs: GemmKnobs,
    pad_value: int = 0,
    *,
    described: str | None = None,
) -> te.Tensor:
    """Sums of (slices times groups, rows, columns), padded; float32, or int32 of integers.

    ``data`` is NHWC of any float dtype, or integers of the workload's, ``weight`` what :func:`pack_weight`
    makes. ``pad_value`` lies around the image. ``described`` annotates the product of a convolution that is
    more than this one.
    """
    rows, columns, depth = padded(workload, knobs)
    slice_depth = depth // knobs.split_k

    def place(batch: Any, k: Any) -> Any:
        return k if knobs.split_k == 1 else batch * slice_depth + k

    def group_of(batch: Any) -> Any:
        return batch if workload.groups > 1 else 0

    def gathered(batch: Any, m: Any, k: Any) -> Any:
        return _gathered(data, workload, group_of(batch), m, place(batch, k), pad_value)

    batches = knobs.split_k * workload.groups
    left = te.compute((batches, rows, slice_depth), gathered, name=GATHER)
    k = te.reduce_axis((0, slice_depth), "k")

    def product(batch: Any, m: Any, n: Any) -> Any:
        right = weight[group_of(batch), n, place(batch, k)]
        sums = workload.sum_dtype
        return te.sum(left[batch, m, k].astype(sums) * right.astype(sums), axis=[k])

    attributes = {ANNOTATION: described or describe_kernel(workload, knobs)}
    return te.compute((batches, rows, columns), product, name=PRODUCT, attrs=attributes)


def _gathered(
    data: te.Tensor, workload: GemmConvolution, group: Any, row: Any, depth: Any, pad_value: int
) -> Any:
    """The element of the image that a place in the depth of a row multiplies."""
    dtype = workload.data_dtype
    # Behind the last row and tap any value will do: nothing asynchronous but zeros.
    outside = tirx.const(pad_value if any(workload.padding) else 0, dtype)
    pixels = workload.out_height * workload.out_width
    image, pixel = row // pixels, row % pixels
    # In runs of what is copied at once, so that it is plain that a run has one tap.
    width = workload.copy_elements
    run = depth // width
    tap = run // (workload.group_channels // width)
    channel = run % (workload.group_channels // width) * width + depth % width
    y = (
        pixel // workload.out_width * workload.strides[0]
        + tap // workload.kernel[1] * workload.dilation[0]
        - workload.padding[0]
    )
    x = (
        pixel % workload.out_width * workload.strides[1]
        + tap % workload.kernel[1] * workload.dilation[1]
        - workload.padding[1]
    )
    inside = [row < workload.rows, run < workload.depth // width]
    if any(workload.padding):
        inside += [y >= 0, y < workload.in_height, x >= 0, x < workload.in_width]
    value = data[image, y, x, group * workload.group_channels + channel].astype(dtype)
    return tirx.if_then_else(tirx.all(*inside), value, outside)


def result_of(sums: te.Tensor, workload: GemmConvolution, extents: Sequence[int], slices: int) -> te.Tensor:
    """The sums without their padding, those of ``slices`` slices of the depth added.

    ``extents`` are those of the result but for its channels, which are last; their product is the rows.
    """

    def element(*index: Any) -> Any:
        *place, channel = index
        row = number_of_row(place, extents)
        group = channel // workload.columns if workload.groups > 1 else 0
        column = channel % workload.columns if workload.groups > 1 else channel
        total = sums[group, row, column]
        for number in range(1, slices):
            total = total + sums[number, row, column]
        return total

    return te.compute((*extents, workload.out_channels), element, name="result")


def rows_as_image(data: te.Tensor) -> te.Tensor:
    """A tensor of any rank, its last axis the channels, as NHWC data with one pixel in each image."""
    *extents, channels = (int(extent) for extent in data.shape)

    def element(row: Any, y: Any, x: Any, channel: Any) -> Any:
        place = []
        for extent in reversed(extents):
            place.append(row % extent)
            row = row // extent
        return data(*reversed(place), channel)

    return te.compute((prod(extents), 1, 1, channels), element, name=ROWS)


def _up(extent: int, step: int) -> int:
    return -(-extent // step) * step
