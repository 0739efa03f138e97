"""Depthwise convolutions of NHWC data, for GPUs: a thread computes neighbouring pixels and channels.

The loops are padded to whole blocks of threads; what lies outside is never written.
"""

from typing import Any

import numpy as np
from tvm import te, tirx

from topi_ext.cuda.annotation import describe_kernel
from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs
from topi_ext.cuda.workload import DepthwiseConvolution
from topi_ext.workloads.convolution import ANNOTATION

WINDOW, SUMS = "window", "depthwise"
"""The blocks that read the image with what surrounds it, and that sum."""


def pack_depthwise(weight: np.ndarray, workload: DepthwiseConvolution) -> np.ndarray:
    """An OHWI weight (one input channel) as (rows, columns, output channels), in what is multiplied."""
    return np.ascontiguousarray(weight[..., 0].transpose(1, 2, 0).astype(workload.weight_dtype))


def depthwise_conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    workload: DepthwiseConvolution,
    knobs: DepthwiseKnobs,
    pad_value: int = 0,
) -> te.Tensor:
    """The NHWC result, float32, or int32 of integers.

    ``data`` is NHWC of any float dtype, or integers of the workload's, ``weight`` what
    :func:`pack_depthwise` makes. Output channel ``c`` is made of input channel ``c // multiplier``.
    ``pad_value`` lies around the image.
    """
    multiplier = workload.columns
    extents = workload.out_height, workload.out_width
    padded = [-(-extent // size) * size for extent, size in zip(extents, knobs.block, strict=True)]
    reads = [
        (padded[axis] - 1) * workload.strides[axis]
        + (workload.kernel[axis] - 1) * workload.dilation[axis]
        + 1
        for axis in (0, 1)
    ]
    dtype, sums = workload.data_dtype, workload.sum_dtype
    image = workload.in_height, workload.in_width
    outside = tirx.const(pad_value, dtype)

    def read(batch: Any, *index: Any) -> Any:
        *place, channel = index
        inside, at = [], []
        for axis in (0, 1):
            before = workload.padding[axis]
            at.append(place[axis] - before)
            inside += [place[axis] >= before] if before else []
            inside += [at[axis] < image[axis]] if reads[axis] - before > image[axis] else []
        value = data[batch, at[0], at[1], channel].astype(dtype)
        return tirx.if_then_else(tirx.all(*inside), value, outside) if inside else value

    window = te.compute((workload.batch, *reads, workload.in_channels), read, name=WINDOW)
    i, j = (te.reduce_axis((0, extent), name) for extent, name in zip(workload.kernel, "ij", strict=True))

    def summed(batch: Any, y: Any, x: Any, channel: Any) -> Any:
        row = y * workload.strides[0] + i * workload.dilation[0]
        column = x * workload.strides[1] + j * workload.dilation[1]
        value = window[batch, row, column, channel // multiplier].astype(sums)
        return te.sum(value * weight[i, j, channel].astype(sums), axis=[i, j])

    shape = (workload.batch, *padded, workload.out_channels)
    attributes = {ANNOTATION: describe_kernel(workload, knobs)}
    total = te.compute(shape, summed, name=SUMS, attrs=attributes)
    whole = (workload.batch, *extents, workload.out_channels)
    return te.compute(whole, lambda *index: total(*index), name="result")
