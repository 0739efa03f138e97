"""Operators of relay.vision: regions of interest, and what finds objects."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, te, tirx

from relay_layout.errors import ModelError
from relay_layout.ir import Expression
from relay_layout.relay.operators import detection
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.direct import named_attributes
from relay_layout.relay.operators.images import shape_of_regions
from relay_layout.relay.operators.operator import Operator, Scope, extents, rank_of, static_extents
from relay_layout.relay.operators.resizing import one_of
from relay_layout.relay.operators.windows import numbers, positive


def _check_regions(operands: Sequence[Expression], attributes: Attributes) -> tuple[int, ...]:
    """The pooled size; ModelError for operands that are not an image and regions of it."""
    data, regions = operands
    if rank_of(data) != 4:
        raise ModelError(f"the data has {rank_of(data)} dimensions, not 4")
    if rank_of(regions) != 2 or extents(regions)[1] != 5:
        raise ModelError("rois must have the shape (number of regions, 5)")
    one_of(attributes.layout, ("NCHW", "NHWC"), "layout")
    if not math.isfinite(attributes.spatial_scale):
        raise ModelError(f"spatial_scale is {attributes.spatial_scale}")
    return positive("pooled_size", attributes.pooled_size, 2)


def _roi_align(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    size = _check_regions(operands, attributes)
    one_of(attributes.mode, ("avg", "max"), "mode")
    numbers("sample_ratio", attributes.sample_ratio, (1,), -1)
    return relax.op.vision.roi_align(
        *operands,
        size,
        attributes.spatial_scale,
        attributes.sample_ratio,
        False,
        attributes.layout,
        attributes.mode,
    )


def _export_roi_align(call: relax.Call) -> Mapping[str, Any] | None:
    if call.attrs.aligned:
        return None
    return named_attributes(call, "pooled_size", "spatial_scale", "sample_ratio", "layout", "mode")


def _pooled_regions(
    data: te.Tensor, regions: te.Tensor, size: Sequence[int], scale: float, axes: Sequence[int]
) -> te.Tensor:
    """The largest value of each bin of each region; ``axes`` are the positions of H and W.

    Bins are kept from growing by one pixel through rounding, as Relay does; Relax's own operator does not.
    """
    kind = regions.dtype
    epsilon = tirx.const(1e-5, kind)
    channel = next(axis for axis in (1, 3) if axis not in axes)
    bounds = [data.shape[axis].astype("int32") for axis in axes]

    def edges(region: Any, where: int, position: Any) -> tuple[Any, Any]:
        """First row (column) of a bin and the one after its last; ``where`` is 0 for rows, 1 for columns."""

        def pixel(column: int) -> Any:
            return te.floor(regions[region, column] * tirx.const(scale, kind) + tirx.const(0.5, kind)).astype(
                "int32"
            )

        first, last = pixel(2 - where), pixel(4 - where)
        extent = te.max(last - first + 1, tirx.const(1, "int32")).astype(kind) / tirx.const(size[where], kind)
        bin_ = position.astype(kind)
        start = te.floor(bin_ * extent + epsilon).astype("int32") + first
        stop = te.ceil((bin_ + tirx.const(1, kind)) * extent - epsilon).astype("int32") + first
        zero = tirx.const(0, "int32")
        return te.min(te.max(start, zero), bounds[where]), te.min(te.max(stop, zero), bounds[where])

    def bin_of(index: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Its first row and the one after its last, and the same of columns."""
        return (*edges(index[0], 0, index[axes[0]]), *edges(index[0], 1, index[axes[1]]))

    def pool(*index: Any) -> Any:
        top, bottom, left, right = bin_of(index)
        row = te.reduce_axis((0, bottom - top), "row")
        column = te.reduce_axis((0, right - left), "column")
        image = te.max(
            te.min(regions[index[0], 0].astype("int64"), data.shape[0] - 1), tirx.const(0, "int64")
        )
        where: list[Any] = [image, 0, 0, 0]
        where[channel] = index[channel]
        where[axes[0]], where[axes[1]] = top + row, left + column
        return te.max(data(*where), axis=[row, column])

    shape = shape_of_regions(data, regions, axes, size)
    pooled = te.compute(shape, pool, name="roi_pool")

    def unless_empty(*index: Any) -> Any:
        top, bottom, left, right = bin_of(index)
        empty = tirx.any(bottom <= top, right <= left)
        return tirx.if_then_else(empty, tirx.const(0, data.dtype), pooled(*index))

    return te.compute(shape, unless_empty, name="roi_pool_or_zero")


def _roi_pool(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    size = _check_regions(operands, attributes)
    axes = (attributes.layout.index("H"), attributes.layout.index("W"))
    return scope.builder.call_te(
        _pooled_regions, *operands, size, attributes.spatial_scale, axes, primfunc_name_hint="roi_pool"
    )


def _yolo_reorg(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    """Pixels of blocks to channels, of the data read as if it had the larger image."""
    (stride,) = positive("stride", attributes.stride, 1)
    if rank_of(operands[0]) != 4:
        raise ModelError(f"the data has {rank_of(operands[0])} dimensions, not 4")
    batch, channels, height, width = static_extents(operands[0])
    if channels % stride**2 or height % stride or width % stride:
        raise ModelError(f"a stride of {stride} does not divide an image of {[channels, height, width]}")
    inner = channels // stride**2
    split = relax.op.reshape(operands[0], [batch, inner, height, stride, width, stride])
    moved = relax.op.permute_dims(split, [0, 3, 5, 1, 2, 4])
    return relax.op.reshape(moved, [batch, channels * stride**2, height // stride, width // stride])


ROWS: tuple[Operator, ...] = (
    Operator(
        "vision.roi_align",
        ("data", "rois"),
        _roi_align,
        "ROIAlignAttrs",
        signature=("data, rois, pooled_size, spatial_scale, sample_ratio=-1, layout='NCHW', mode='avg'"),
        relax_names=("vision.roi_align",),
        export=_export_roi_align,
    ),
    Operator(
        "vision.roi_pool",
        ("data", "rois"),
        _roi_pool,
        "ROIPoolAttrs",
        signature="data, rois, pooled_size, spatial_scale, layout='NCHW'",
        carried=True,
    ),
    Operator("vision.yolo_reorg", ("data",), _yolo_reorg, "YoloReorgAttrs", signature="data, stride"),
    *detection.ROWS,
)
