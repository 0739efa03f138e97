"""Operators of relay.image."""

from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of
from relay_layout.relay.operators import resizing
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.operator import Exported, Operator, Scope, extents, numbers_of, rank_of
from relay_layout.relay.operators.resizing import checked_layout, one_of
from relay_layout.relay.operators.windows import full_padding, positive


def _cropped(
    data: te.Tensor,
    boxes: te.Tensor,
    indices: te.Tensor,
    axes: tuple[int, int],
    size: Sequence[int],
    nearest: bool,
    outside: float,
    dtype: str,
) -> te.Tensor:
    """Boxes (top, left, bottom, right; 0 is the first pixel and 1 the last) of images, resized.

    ``axes`` are the positions of H and W; ``outside`` is what pixels beyond the image are.
    """
    height, width = (data.shape[axis] for axis in axes)
    shape = shape_of_regions(data, indices, axes, size)

    def place(position: Any, extent: Any, count: int, first: Any, last: Any) -> Any:
        end = (extent - 1).astype("float32")
        if count == 1:
            return (first + last) * end * tirx.const(0.5, "float32")
        return first * end + position.astype("float32") * (
            (last - first) * end / tirx.const(count - 1.0, "float32")
        )

    def compute(*index: Any) -> Any:
        box = index[0]
        image = te.max(te.min(indices(box).astype("int64"), data.shape[0] - 1), tirx.const(0, "int64"))
        corners = [boxes(box, corner).astype("float32") for corner in range(4)]
        y = place(index[axes[0]], height, size[0], corners[0], corners[2])
        x = place(index[axes[1]], width, size[1], corners[1], corners[3])

        def pixel(row: Any, column: Any) -> Any:
            where = list(index)
            where[0] = image
            for axis, value, extent in ((axes[0], row, height), (axes[1], column, width)):
                where[axis] = te.max(te.min(value.astype("int64"), extent - 1), tirx.const(0, "int64"))
            return data(*where).astype("float32")

        half = tirx.const(0.5, "float32")
        if nearest:
            value = pixel(te.floor(y + half), te.floor(x + half))
        else:
            top, left = te.floor(y), te.floor(x)
            one = tirx.const(1, "float32")
            down, right = y - top, x - left
            upper = pixel(top, left) * (one - right) + pixel(top, left + one) * right
            lower = pixel(top + one, left) * (one - right) + pixel(top + one, left + one) * right
            value = upper * (one - down) + lower * down
        inside = tirx.all(y >= 0, y <= height - 1, x >= 0, x <= width - 1)
        return tirx.if_then_else(inside, value, tirx.const(outside, "float32")).astype(dtype)

    return te.compute(shape, compute, name="crop_and_resize", tag="injective")


def shape_of_regions(
    data: te.Tensor, regions: te.Tensor, axes: Sequence[int], size: Sequence[int]
) -> list[Any]:
    """The shape of one image of ``size``, along ``axes``, for each of the regions of ``data``."""
    shape = [*data.shape]
    shape[0] = regions.shape[0]
    for axis, extent in zip(axes, size, strict=True):
        shape[axis] = tirx.IntImm("int64", extent)
    return shape


def _crop_and_resize(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, boxes, indices = operands
    layout = checked_layout(attributes.layout, 2, data)
    method = one_of(attributes.method.lower(), ("bilinear", "nearest_neighbor"), "method")
    if len(extents(boxes)) != 2 or extents(boxes)[1] != 4 or rank_of(indices) != 1:
        raise ModelError("boxes must have the shape (number of boxes, 4) and box_indices a number for each")
    if not dtype_of(indices).startswith("int"):
        raise ModelError(f"box_indices is {dtype_of(indices)}; it must be integers")
    return scope.builder.call_te(
        _cropped,
        data,
        boxes,
        indices,
        (layout.index("H"), layout.index("W")),
        positive("crop_size", attributes.crop_size, 2),
        method == "nearest_neighbor",
        attributes.extrapolation_value,
        attributes.out_dtype or dtype_of(data),
        primfunc_name_hint="crop_and_resize",
    )


def _dilation2d(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    layouts = (attributes.data_layout, attributes.kernel_layout)
    functions = {
        ("NCHW", "IHW"): topi.image.dilation2d_nchw,
        ("NHWC", "HWI"): topi.image.dilation2d_nhwc,
    }
    if layouts not in functions:
        raise ModelError(f"layouts {' and '.join(layouts)}; NCHW and IHW, or NHWC and HWI, can be computed")
    data, weight = operands
    if rank_of(data) != 4 or rank_of(weight) != 3:
        raise ModelError(
            f"data and weight have {rank_of(data)} and {rank_of(weight)} dimensions, not 4 and 3"
        )
    channels = [
        extents(value)[letters.index(axis)]
        for value, letters, axis in ((data, layouts[0], "C"), (weight, layouts[1], "I"))
    ]
    if channels[0] != channels[1]:
        raise ModelError(f"the data has {channels[0]} channels and the weight {channels[1]}")
    return scope.builder.call_te(
        functions[layouts],
        data,
        weight,
        stride=positive("strides", attributes.strides, 2),
        padding=full_padding(attributes.padding, 2),
        dilations=positive("dilations", attributes.dilations, 2),
        out_dtype=attributes.out_dtype or dtype_of(data),
    )


def _affine_grid(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    size = positive("target_shape", attributes.target_shape, 2)
    if 1 in size:
        raise ModelError(f"target_shape is {list(size)}; both extents must be over 1")
    if extents(operands[0])[1:] != (2, 3):
        raise ModelError("the data must have the shape (batch, 2, 3)")
    return relax.op.image.affine_grid(operands[0], size, True)


def _export_affine_grid(call: relax.Call) -> Exported | None:
    size = numbers_of(call.args[1])
    if not call.attrs.align_corners or size is None or len(size) != 2:
        return None
    return Exported([call.args[0]], {"target_shape": size})


_GRID_NAMES = ("method", "layout", "padding_mode", "align_corners")


def _grid_sample(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, grid = operands
    one_of(attributes.method, ("nearest", "bilinear", "bicubic"), "method")
    one_of(attributes.padding_mode, ("zeros", "border", "reflection"), "padding_mode")
    rank = rank_of(data)
    if (rank, attributes.layout) not in ((4, "NCHW"), (5, "NCDHW")):
        raise ModelError(f"layout is '{attributes.layout}' for {rank} dimensions; it can be NCHW or NCDHW")
    if rank == 5 and attributes.method == "bicubic":
        raise ModelError("method is 'bicubic', which needs 4 dimensions")
    if rank_of(grid) != rank or extents(grid)[1] != rank - 2:
        raise ModelError(f"the grid must have {rank} dimensions, the second of {rank - 2}")
    return scope.builder.call_te(
        topi.image.grid_sample, data, grid, **{name: attributes[name] for name in _GRID_NAMES}
    )


ROWS: tuple[Operator, ...] = (
    *resizing.ROWS,
    Operator(
        "image.crop_and_resize",
        ("data", "boxes", "box_indices"),
        _crop_and_resize,
        "CropAndResizeAttrs",
        signature=(
            "data, boxes, box_indices, crop_size, layout, method='bilinear', extrapolation_value=0, "
            "out_dtype=None"
        ),
        carried=True,
    ),
    Operator(
        "image.dilation2d",
        ("data", "weight"),
        _dilation2d,
        "Dilation2DAttrs",
        signature=(
            "data, weight, strides=(1, 1), padding=(0, 0), dilations=(1, 1), data_layout='NCHW', "
            "kernel_layout='IHW', out_dtype=''"
        ),
        carried=True,
    ),
    Operator(
        "image.affine_grid",
        ("data",),
        _affine_grid,
        "AffineGridAttrs",
        signature="data, target_shape=None",
        relax_names=("image.affine_grid",),
        export=_export_affine_grid,
    ),
    Operator(
        "image.grid_sample",
        ("data", "grid"),
        _grid_sample,
        "GridSampleAttrs",
        signature=("data, grid, method='bilinear', layout='NCHW', padding_mode='zeros', align_corners=True"),
        carried=True,
    ),
)
