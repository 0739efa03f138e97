"""Direct 2-D convolution, for every combination of plain and blocked layouts.

One compute serves all: what differs between NCHW, NHWC and NCHW16c is only which expression
indexes which tensor (:mod:`topi_ext.indexing`) and the order in which the reduction is walked.
"""

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from topi_ext.errors import RelayLayoutError
from topi_ext.indexing import (
    BlockedCoordinate,
    Coordinate,
    block_of,
    logical_extent,
    physical_axes,
    physical_index,
)
from topi_ext.workload import ANNOTATION, ConvolutionWorkload

REDUCTION_AXES = ("rc", "rh", "rw", "rb")
"""Names of the reduction loops: channels (outer part), kernel rows, kernel columns, channels in a block."""

PADDING = "data_pad"
"""Name of the block that copies the image with its padding."""


def conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    *,
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "NCHW",
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolve ``data`` [N, C, H, W] with ``weight`` [O, C/groups, KH, KW], each stored in its layout.

    ``padding`` is (top, left, bottom, right), zeros. Channels of groups that do not fill a block are
    addressed element by element, so every grouped convolution is right in every blocked layout.
    A layout may leave out axes of extent one: "WC" with "OI16o" is a product of rows by a matrix.
    The result has ``out_layout``; it is accumulated in ``out_dtype`` (that of ``data`` by default).
    """
    workload = ConvolutionWorkload(
        batch=_as_int(logical_extent(data_layout, data.shape, "N")),
        in_channels=_as_int(logical_extent(data_layout, data.shape, "C")),
        out_channels=_as_int(logical_extent(kernel_layout, weight.shape, "O")),
        in_height=_as_int(logical_extent(data_layout, data.shape, "H")),
        in_width=_as_int(logical_extent(data_layout, data.shape, "W")),
        kernel=(
            _as_int(logical_extent(kernel_layout, weight.shape, "H")),
            _as_int(logical_extent(kernel_layout, weight.shape, "W")),
        ),
        strides=(int(strides[0]), int(strides[1])),
        padding=(int(padding[0]), int(padding[1]), int(padding[2]), int(padding[3])),
        dilation=(int(dilation[0]), int(dilation[1])),
        groups=int(groups),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        dtype=str(data.dtype),
        out_dtype=out_dtype or str(data.dtype),
    )
    _check_channels(workload, _as_int(logical_extent(kernel_layout, weight.shape, "I")))
    return _direct(data, weight, workload)


def _check_channels(workload: ConvolutionWorkload, weight_channels: Any) -> None:
    """Channels that do not fit together would be left out of the result without a word."""
    channels, out_channels, groups = workload.in_channels, workload.out_channels, workload.groups
    if not all(isinstance(extent, int) for extent in (channels, out_channels, weight_channels)):
        return
    block = block_of(workload.out_layout, "C")
    problem = ""
    if channels != groups * weight_channels:
        problem = f"{channels} input channels for {groups} groups of {weight_channels}"
    elif out_channels % groups:
        problem = f"{out_channels} output channels in {groups} groups"
    elif out_channels % block:
        problem = f"{out_channels} output channels in blocks of {block}"
    if problem:
        layouts = f"{workload.data_layout}, {workload.kernel_layout} to {workload.out_layout}"
        raise RelayLayoutError(f"conv2d of {layouts}: {problem}")


def reduction_axes(workload: ConvolutionWorkload) -> tuple[str, ...]:
    """The reduction loops of a convolution in the order in which the compute declares them.

    Blocked data is walked block by block, so that one block's lanes stay in cache over the whole
    window; NHWC walks the window first because a pixel's channels are contiguous.
    """
    if workload.group_in_channels == 1:
        return ("rh", "rw")
    if _reduction_block(workload) > 1:
        return ("rc", "rh", "rw", "rb")
    if workload.data_layout == "NHWC":
        return ("rh", "rw", "rc")
    return ("rc", "rh", "rw")


def _reduction_block(workload: ConvolutionWorkload) -> int:
    block = block_of(workload.data_layout, "C")
    return block if workload.group_in_channels % block == 0 else 1


def _direct(data: te.Tensor, weight: te.Tensor, workload: ConvolutionWorkload) -> te.Tensor:
    padded = _pad(data, workload)
    channels = workload.group_in_channels
    block = _reduction_block(workload)
    extents = {"rc": channels // block, "rh": workload.kernel[0], "rw": workload.kernel[1], "rb": block}
    axes = {name: te.reduce_axis((0, extents[name]), name) for name in reduction_axes(workload)}
    group_out_channels = workload.out_channels // workload.groups
    stride_h, stride_w = workload.strides
    dilation_h, dilation_w = workload.dilation
    out_block = block_of(workload.out_layout, "C")
    out_axes = physical_axes(workload.out_layout)

    def element(*index: tirx.Var) -> tirx.Expr:
        spatial = {axis: position for axis, position in zip(out_axes, index, strict=True)}
        out_channel: Coordinate = spatial["C", 0]
        if out_block > 1:
            out_channel = BlockedCoordinate(spatial["C", 0], spatial["C", out_block], out_block)
        in_group: Coordinate = 0
        if "rb" in axes:
            in_group = BlockedCoordinate(axes["rc"], axes["rb"], block)
        elif "rc" in axes:
            in_group = axes["rc"]
        in_channel = in_group
        if workload.groups > 1:
            if workload.is_depthwise and group_out_channels == 1:
                in_channel = out_channel
            else:
                group = _flat(out_channel) // group_out_channels
                in_channel = group * channels + _flat(in_group)
        pixel = {
            "N": spatial.get(("N", 0), 0),
            "C": in_channel,
            "H": spatial.get(("H", 0), 0) * stride_h + axes["rh"] * dilation_h,
            "W": spatial.get(("W", 0), 0) * stride_w + axes["rw"] * dilation_w,
        }
        tap = {"O": out_channel, "I": in_group, "H": axes["rh"], "W": axes["rw"]}
        value = padded(*physical_index(workload.data_layout, pixel))
        factor = weight(*physical_index(workload.kernel_layout, tap))
        if workload.out_dtype != workload.dtype:
            value, factor = value.astype(workload.out_dtype), factor.astype(workload.out_dtype)
        return te.sum(value * factor, axis=list(axes.values()))

    extent = {
        "N": workload.batch,
        "C": workload.out_channels // out_block,
        "H": workload.out_height,
        "W": workload.out_width,
    }
    shape = [factor or extent[name] for name, factor in out_axes]
    return te.compute(shape, element, name="conv2d", attrs={ANNOTATION: workload.to_json()})


def _flat(coordinate: Coordinate) -> Any:
    return coordinate.flat if isinstance(coordinate, BlockedCoordinate) else coordinate


def _pad(data: te.Tensor, workload: ConvolutionWorkload) -> te.Tensor:
    top, left, bottom, right = workload.padding
    if not any(workload.padding):
        return data
    axes = [name if not factor else "" for name, factor in physical_axes(workload.data_layout)]
    before = [{"H": top, "W": left}.get(name, 0) for name in axes]
    after = [{"H": bottom, "W": right}.get(name, 0) for name in axes]
    shape = [size + low + high for size, low, high in zip(data.shape, before, after, strict=True)]

    def element(*index: tirx.Var) -> tirx.Expr:
        inside = [
            condition
            for position, low, high, size in zip(index, before, after, data.shape, strict=True)
            if low or high
            for condition in (position >= low, position < size + low)
        ]
        source = [position - low if low else position for position, low in zip(index, before, strict=True)]
        return tirx.if_then_else(tirx.all(*inside), data(*source), tirx.const(0, data.dtype))

    return te.compute(shape, element, name=PADDING)


def _as_int(extent: Any) -> Any:
    """An int where the extent is static, the symbolic expression itself where it is not."""
    if isinstance(extent, tirx.IntImm):
        return int(extent.value)
    return extent
