"""Direct convolution over one, two or three axes, for every combination of plain and blocked layouts.

One compute serves all: what differs between NCHW, NHWC and NCW16c is only which expression
indexes which tensor (:mod:`topi_ext.indexing`) and the order in which the reduction is walked.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.bfloat16 import widened as float_of
from topi_ext.codegen.dot_products import dot
from topi_ext.compute.geometry import (
    Geometry,
    flat,
    geometry_of,
    reduction_block,
    reduction_channel,
    reduction_order,
    widened,
)
from topi_ext.compute.padding import pad
from topi_ext.extents import simplified
from topi_ext.indexing import (
    BlockedCoordinate,
    Coordinate,
    physical_axes,
    physical_index,
)
from topi_ext.workloads.convolution import (
    ANNOTATION,
    TYPICAL,
    WIDENED,
    ConvolutionWorkload,
    workload_along,
)

STORED = "stored"
"""Name of the block that leaves out the lanes of a padded result that are no channels."""


def conv1d(
    data: te.Tensor,
    weight: te.Tensor,
    *,
    strides: Sequence[int] = (1,),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1,),
    **options: Any,
) -> te.Tensor:
    """Convolve ``data`` [N, C, W] with ``weight`` [O, C/groups, KW]: :func:`conv2d` of images of one row.

    Layouts without rows need no other compute, and so no other schedule.
    """
    layouts = {"data_layout": "NCW", "kernel_layout": "OIW", "out_layout": "NCW"}
    return conv2d(data, weight, **as_image(strides, padding, dilation), **{**layouts, **options})


def as_image(strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> dict[str, Any]:
    """The window of a 1-D convolution as that of :func:`conv2d` over images of one row."""
    return {
        "strides": (1, *strides),
        "padding": (0, padding[0], 0, padding[1]),
        "dilation": (1, *dilation),
    }


def conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    *,
    pad_value: int = 0,
    known: ConvolutionWorkload | None = None,
    **options: Any,
) -> te.Tensor:
    """Convolve ``data`` [N, C, H, W] with ``weight`` [O, C/groups, KH, KW], each stored in its layout.

    ``options`` are those of :func:`.geometry_of`, among them ``padding`` (top, left, bottom, right), of
    elements ``pad_value``. Channels of groups that do not fill a block are addressed element by element, so
    every grouped convolution is right in every blocked layout.
    A layout may leave out axes of extent one: "WC" with "OI16o" is a product of rows by a matrix.
    The result has ``out_layout``; it is accumulated in ``out_dtype`` (that of ``data`` by default).

    A kernel of int8 that is stored with four elements of I or W innermost ("OIHW4i16o4i", "OIHW16o4w") makes
    dot products of them with ``data`` of uint8 or int8, and one of uint16, the bits of bfloat16, with two of
    them ("OHWI16o2i") with ``data`` of such bits, or of float32 that is rounded. So does one of int16 with
    ``data`` of uint8, which is widened. A kernel of float32 takes integer ``data`` as float32, where sums
    below 2**24 are exact.
    ``out_channels`` are those of the result where the weight has zeros for more, so that the outputs of
    each group fill the vectors of its layout; the results of the others are not stored. The layout of such a
    kernel has an axis G where there are several groups: "GOHWI16o".
    ``known`` is the workload with what is known of its weights, at a typical size where height and width of
    ``data`` are symbolic.
    """
    geometry = geometry_of("HW", data, weight, **options)
    return _direct(data, weight, geometry, known, pad_value)


def _described(workload: ConvolutionWorkload, known: ConvolutionWorkload | None) -> dict[str, str]:
    """The annotations of a convolution's block."""
    if known is None:
        return {ANNOTATION: workload.to_json()}
    workload = replace(workload, pairs_fit=known.pairs_fit, spare_bits=known.spare_bits)
    annotations = {ANNOTATION: workload.to_json()}
    if not workload.is_static:
        annotations[TYPICAL] = known.to_json()
    return annotations


def workload_of(geometry: Geometry) -> ConvolutionWorkload:
    """What a 2-D or 3-D convolution is, as its annotation and its tuning records say it."""
    return workload_along(
        geometry.image,
        geometry.kernel,
        geometry.strides,
        geometry.padding,
        geometry.dilation,
        batch=geometry.batch,
        in_channels=geometry.in_channels,
        out_channels=geometry.out_channels,
        groups=geometry.groups,
        data_layout=geometry.data_layout,
        kernel_layout=geometry.kernel_layout,
        out_layout=geometry.out_layout,
        dtype=geometry.dtype,
        out_dtype=geometry.out_dtype,
    )


def conv3d(
    data: te.Tensor,
    weight: te.Tensor,
    *,
    known: ConvolutionWorkload | None = None,
    **options: Any,
) -> te.Tensor:
    """Convolve ``data`` [N, C, D, H, W] with ``weight`` [O, C/groups, KD, KH, KW], each in its layout.

    ``padding`` is (front, top, left, back, bottom, right), zeros; otherwise as :func:`conv2d`.
    """
    geometry = geometry_of("DHW", data, weight, **options)
    return _direct(data, weight, geometry, known)


def reduction_axes(workload: ConvolutionWorkload) -> tuple[str, ...]:
    """The reduction loops of a convolution in the order in which the compute declares them."""
    return reduction_order(
        workload.spatial,
        channels=workload.group_in_channels,
        block=reduction_block(workload.data_layout, workload.group_in_channels),
        channels_last=workload.data_layout.endswith("C"),
    )


def _direct(
    data: te.Tensor,
    weight: te.Tensor,
    geometry: Geometry,
    known: ConvolutionWorkload | None,
    pad_value: int = 0,
) -> te.Tensor:
    """The convolution, in a block called "conv2d" or "conv3d".

    Where outputs are padded, that block has axes for groups (if there are several), vectors and lanes in the
    place of the channels, and one called :data:`STORED` leaves out the lanes that are no channels.
    """
    padded = _pad(data, geometry, pad_value)
    channels, block = geometry.group_in_channels, geometry.reduction_block
    axes = {name: te.reduce_axis((0, size), name) for name, size in geometry.reductions.items()}
    out_axes = physical_axes(geometry.out_layout)

    def factors(index: Sequence[tirx.Var], steps: dict[str, Coordinate]) -> tuple[tirx.Expr, tirx.Expr]:
        """The elements of data and kernel at a step of the reduction; ``steps`` replaces some of its axes."""
        position = dict(zip(out_axes, index, strict=not geometry.padded_lanes))
        out_channel, group = _output(geometry, index, position)
        in_group = steps.get("I", reduction_channel(axes, block))
        in_channel: Coordinate = in_group
        if geometry.groups > 1:
            in_channel = out_channel if geometry.keeps_channels else group * channels + flat(in_group)
        pixel: dict[str, Coordinate] = {"N": position.get(("N", 0), 0), "C": in_channel}
        tap: dict[str, Coordinate] = {"G": group, "O": out_channel, "I": in_group}
        for place, axis in enumerate(geometry.spatial):
            step = steps.get(axis, axes[f"r{axis.lower()}"])
            start = position.get((axis, 0), 0) * geometry.strides[place]
            tap[axis], pixel[axis] = step, start + flat(step) * geometry.dilation[place]
        value = padded(*physical_index(geometry.data_layout, pixel))
        factor = weight(*physical_index(geometry.kernel_layout, tap))
        if geometry.reads_bits:
            value, factor = (float_of(bits) for bits in (value, factor))
        return value, factor

    def element(*index: tirx.Var) -> tirx.Expr:
        if geometry.word_axis:
            pairs = [factors(index, _step(axes, geometry, place)) for place in range(geometry.word)]
            values, weights = zip(*pairs, strict=True)
            fit = known is not None and known.pairs_fit
            product = dot(values, weights, geometry.out_dtype, pairs_fit=fit)
        else:
            value, factor = factors(index, {})
            product = widened(value, geometry) * widened(factor, geometry)
        return te.sum(product, axis=list(axes.values()))

    workload = workload_of(geometry)
    spatial = (workload.out_depth, workload.out_height, workload.out_width)[-len(geometry.spatial) :]
    shape = geometry.out_shape([simplified(extent) for extent in spatial])
    name, described = f"conv{len(geometry.spatial)}d", _described(workload, known)
    if not geometry.padded_lanes:
        return te.compute(shape, element, name=name, attrs=described)
    result = te.compute([*shape[:-1], *_vectors(geometry)], element, name=name, attrs=described)
    return _stored(result, shape, geometry)


def _vectors(geometry: Geometry) -> list[int]:
    """What stands in the place of padded channels: groups, if there are several, vectors and lanes."""
    groups = [geometry.groups] if geometry.groups > 1 else []
    return [*groups, math.ceil(geometry.group_out_channels / geometry.padded_lanes), geometry.padded_lanes]


def _stored(padded: te.Tensor, shape: Sequence[Any], geometry: Geometry) -> te.Tensor:
    """A padded result without the lanes that are no channels."""
    outputs, lanes = geometry.group_out_channels, geometry.padded_lanes

    def element(*index: tirx.Var) -> tirx.Expr:
        *outer, channel = index
        if geometry.groups > 1:
            outer, channel = [*outer, channel // outputs], channel % outputs
        return padded(*outer, channel // lanes, channel % lanes)

    return te.compute(shape, element, name=STORED)


def _output(geometry: Geometry, index: Sequence[Any], position: dict[Any, Any]) -> tuple[Coordinate, Any]:
    """The kernel's output that an element of the result is made with, and its group.

    In a padded kernel, whose layout has an axis for groups, outputs count within theirs.
    """
    lanes = geometry.padded_lanes
    if not lanes:
        channel = geometry.out_channel(position)
        return channel, flat(channel) // geometry.group_out_channels
    *outer, vector, lane = index
    return BlockedCoordinate(vector, lane, lanes), outer[-1] if geometry.groups > 1 else 0


def _step(axes: dict[str, tirx.IterVar], geometry: Geometry, place: int) -> dict[str, Coordinate]:
    """Where the element at ``place`` of a dot product lies along the axis of those."""
    block = geometry.reduction_block
    if geometry.word_axis == "W":
        return {"W": BlockedCoordinate(axes["rw"], place, geometry.word)}
    if block > 1:
        return {"I": BlockedCoordinate(axes["rc"], axes["rb"] * geometry.word + place, block)}
    return {"I": axes["rc"] * geometry.word + place}


def _pad(data: te.Tensor, geometry: Geometry, value: int = 0) -> te.Tensor:
    """The data with its border, in the dtype of a kernel of floating point or of 16 bits."""
    rank = len(geometry.spatial)
    before = dict(zip(geometry.spatial, geometry.padding[:rank], strict=True))
    after = dict(zip(geometry.spatial, geometry.padding[rank:], strict=True))
    as_weights = geometry.weight_dtype.startswith("float") or geometry.reads_bits or geometry.dtype == WIDENED
    dtype = geometry.weight_dtype if as_weights else None
    return pad(data, geometry.data_layout, before, after, value=value, dtype=dtype)
