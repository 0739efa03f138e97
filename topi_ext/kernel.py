"""Kernels of a convolution: what one computes, its loops, and its arguments to measure it with."""

from collections.abc import Mapping
from typing import Any

from tvm import te, tirx, topi
from tvm.s_tir import Schedule

from topi_ext import compute
from topi_ext.indexing import block_of, physical_axes
from topi_ext.knobs import Knobs, WinogradKnobs
from topi_ext.schedule.cpu.direct import schedule_convolution
from topi_ext.schedule.cpu.winograd import schedule_winograd
from topi_ext.workloads.convolution import PLANES, ConvolutionWorkload
from topi_ext.workloads.facts import tiled_channels
from topi_ext.workloads.separable import SeparableWorkload


def kernel_arguments(workload: ConvolutionWorkload, knobs: Knobs) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of data, weight, bias and result, as the kernel takes them.

    Of two convolutions these are those of the second, and before the result weight and bias of the first.
    """
    if isinstance(workload, SeparableWorkload):
        (data, *first, _), (_, *second) = (
            kernel_arguments(part, knobs) for part in (workload.depthwise, workload.pointwise)
        )
        return [data, *second[:-1], *first, second[-1]]
    sizes = {
        "N": workload.batch,
        "C": workload.in_channels,
        "D": workload.in_depth,
        "H": workload.in_height,
        "W": workload.in_width,
    }
    taps = {
        "G": workload.groups,
        "O": tiled_channels(workload) if workload.padded_lanes else workload.out_channels,
        "I": workload.group_in_channels,
        "D": workload.kernel_depth,
        "H": workload.kernel[0],
        "W": workload.kernel[1],
    }
    result = {
        "N": workload.batch,
        "C": workload.out_channels,
        "D": workload.out_depth,
        "H": workload.out_height,
        "W": workload.out_width,
    }
    bias = {**dict.fromkeys(result, 1), "C": workload.out_channels}
    weight = _shape(workload.kernel_layout, taps)
    if isinstance(knobs, WinogradKnobs):
        weight = knobs.weight_shape(workload)
    return [
        (_shape(workload.data_layout, sizes), workload.data_dtype),
        (weight, workload.weight_dtype),
        (_shape(workload.out_layout, bias), workload.out_dtype),
        (_shape(workload.out_layout, result), workload.out_dtype),
    ]


EPILOGUE_OPERATIONS = 1
"""Vector operations of :func:`kernel_function` on each result besides its sum: ReLU's maximum.

The bias is none, as a sum may start from it.
"""


def kernel_function(workload: ConvolutionWorkload, knobs: Knobs) -> tirx.PrimFunc:
    """The loops of a workload with bias and ReLU, before they are scheduled.

    Parameters: those of :func:`kernel_arguments`.
    """
    arguments = kernel_arguments(workload, knobs)[:-1]
    parameters = [te.placeholder(shape, dtype) for shape, dtype in arguments]
    data, weight, bias, *before = parameters
    if isinstance(workload, SeparableWorkload):
        made = direct_convolution(data, before[0], workload.depthwise)
        data, workload = topi.nn.relu(topi.add(made, before[1])), workload.pointwise
    result = convolve(data, weight, workload, knobs)
    return te.create_prim_func([*parameters, topi.nn.relu(topi.add(result, bias))])


def convolve(
    data: te.Tensor, weight: te.Tensor, workload: ConvolutionWorkload, knobs: Knobs, pad_value: int = 0
) -> te.Tensor:
    """The compute that ``knobs`` are for; Winograd's takes transformed weights.

    ``pad_value`` fills a border of two axes.
    """
    if isinstance(knobs, WinogradKnobs):
        return compute.winograd(data, weight, workload, knobs, pad_value)
    return direct_convolution(data, weight, workload, pad_value)


def direct_convolution(
    data: te.Tensor,
    weight: te.Tensor,
    workload: ConvolutionWorkload,
    pad_value: int = 0,
) -> te.Tensor:
    """The compute of a workload by the direct algorithm; ``pad_value`` fills a border of two axes."""
    strides, padding, dilation = workload.strides, workload.padding, workload.dilation
    options: dict[str, Any] = {
        "groups": workload.groups,
        "data_layout": workload.data_layout,
        "kernel_layout": workload.kernel_layout,
        "out_layout": workload.out_layout,
        "out_dtype": workload.out_dtype,
        "out_channels": workload.out_channels,
        "known": workload,
    }
    if not workload.depth:
        options |= {"strides": strides, "padding": padding, "dilation": dilation}
        return compute.conv2d(data, weight, pad_value=pad_value, **options)
    depth = workload.along(PLANES)
    return compute.conv3d(
        data,
        weight,
        strides=(depth.stride, *strides),
        padding=(depth.pad_before, *padding[:2], depth.pad_after, *padding[2:]),
        dilation=(depth.dilation, *dilation),
        **options,
    )


def schedule(func: tirx.PrimFunc, workload: ConvolutionWorkload, knobs: Knobs) -> Schedule:
    """Arrange a function around :func:`convolve`; RelayLayoutError where the knobs do not fit."""
    if isinstance(knobs, WinogradKnobs):
        return schedule_winograd(func, workload, knobs)
    return schedule_convolution(func, workload, knobs)


def scheduled_kernel(workload: ConvolutionWorkload, knobs: Knobs) -> tirx.PrimFunc:
    """:func:`kernel_function`, arranged as ``knobs`` say; RelayLayoutError where they do not fit."""
    return schedule(kernel_function(workload, knobs), workload, knobs).mod["main"]


def _shape(layout: str, extents: Mapping[str, int]) -> tuple[int, ...]:
    """The shape in a layout of a tensor of those extents."""
    return tuple(factor or extents[name] // block_of(layout, name) for name, factor in physical_axes(layout))
