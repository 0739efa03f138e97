"""Workloads of more than one convolution over two axes, small enough to be measured in a test."""

from dataclasses import replace

from topi_ext.workloads.convolution import ConvolutionWorkload, SpatialAxis, volume_workload
from topi_ext.workloads.separable import SeparableWorkload, separable


def volume() -> ConvolutionWorkload:
    """A convolution over three axes."""
    planes = replace(
        _planes(channels=16, kernel=3, groups=1),
        data_layout="NCDHW16c",
        kernel_layout="OIDHW16i16o",
        out_layout="NCDHW16c",
    )
    return volume_workload(planes, SpatialAxis(5, 3, 2, 1, 0, 1))


def pair() -> SeparableWorkload:
    """A depthwise convolution of 16 channels and the pointwise one of its result, in one kernel."""
    both = separable(_planes(channels=16, kernel=3, groups=16), _planes(channels=16, kernel=1, groups=1))
    assert both is not None
    return both


def _planes(*, channels: int, kernel: int, groups: int) -> ConvolutionWorkload:
    pad = kernel // 2
    return ConvolutionWorkload(
        batch=1,
        in_channels=channels,
        out_channels=channels,
        in_height=8,
        in_width=8,
        kernel=(kernel, kernel),
        strides=(1, 1),
        padding=(pad, pad, pad, pad),
        dilation=(1, 1),
        groups=groups,
        data_layout="NCHW16c",
        kernel_layout="OIHW16o" if groups > 1 else "OIHW16i16o",
        out_layout="NCHW16c",
        dtype="float32",
        out_dtype="float32",
    )
