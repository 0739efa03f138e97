"""ONNX operators of images: regions, samples, columns of windows, space against channels.

Padding is in :mod:`.padding`, resizing in :mod:`.resizing`.
"""

from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import greatest
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import padding, resizing
from relay_layout.frontend.onnx.operators.columns import columns_to_image
from relay_layout.frontend.operators.regions import averaged_regions
from relay_layout.frontend.values import Unsupported, Value, dtype_of, extents, shape_of, written
from relay_layout.ir import Expression, Extent


def _depth_to_space(node: Node) -> Value:
    batch, channels, height, width = _image(node)
    block = _block(node)
    if isinstance(channels, int) and channels % block**2:
        raise Unsupported(f"has blocks of {block} for {channels} channels")
    node.requirements.divisible(channels, block**2)
    fewer = channels // block**2
    if node.attributes.get("mode", "DCR") == "CRD":
        split, order = [batch, fewer, block, block, height, width], [0, 1, 4, 2, 5, 3]
    else:
        split, order = [batch, block, block, fewer, height, width], [0, 3, 4, 1, 5, 2]
    parts = relax.op.reshape(node.tensor(0), relax.ShapeExpr(split))
    woven = relax.op.permute_dims(node.emit(parts, "blocks"), order)
    goal = [batch, fewer, height * block, width * block]
    return relax.op.reshape(node.emit(woven, "woven"), relax.ShapeExpr(goal))


def _space_to_depth(node: Node) -> Value:
    batch, channels, height, width = _image(node)
    block = _block(node)
    for extent in (height, width):
        if isinstance(extent, int) and extent % block:
            raise Unsupported(f"cannot cut {written([height, width])} into blocks of {block}")
        node.requirements.divisible(extent, block)
    split = [batch, channels, height // block, block, width // block, block]
    parts = relax.op.reshape(node.tensor(0), relax.ShapeExpr(split))
    mode = node.attributes.get("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise Unsupported(f"has the unknown mode '{mode}'")
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    woven = relax.op.permute_dims(node.emit(parts, "blocks"), order)
    goal = [batch, channels * block**2, height // block, width // block]
    return relax.op.reshape(node.emit(woven, "woven"), relax.ShapeExpr(goal))


def _region_average(node: Node) -> Value:
    """RoiAlign: the regions are scaled first, and moved by half a pixel then."""
    attributes = node.attributes
    if attributes.get("mode", "avg") != "avg":
        raise Unsupported("has mode 'max', which is not supported: export it with 'avg'")
    given = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    transformation = attributes.get("coordinate_transformation_mode", given)
    if transformation not in ("half_pixel", "output_half_pixel"):
        raise Unsupported(f"has the unknown coordinate_transformation_mode '{transformation}'")
    scale = float(attributes.get("spatial_scale", 1.0))
    images = node.emit(relax.op.expand_dims(node.cast(node.input(2), dtype_of(node.input(1))), 1), "images")
    numbered = node.emit(relax.op.concat([images, node.tensor(1)], 1), "regions")
    return averaged_regions(
        node.builder,
        node.tensor(0),
        numbered,
        (int(attributes.get("output_height", 1)), int(attributes.get("output_width", 1))),
        scale,
        int(attributes.get("sampling_ratio", 0)),
        moved=transformation == "half_pixel",
    )


def _affine_grid(node: Node) -> Value:
    """Transforms [N, 2, 3] or [N, 3, 4] of the places of pixels, to [N, (D,) H, W, 2 or 3]; x comes first."""
    transforms, sizes = node.tensor(0), node.extents(1)
    shape, spatial = shape_of(transforms), sizes[2:]
    rank = len(spatial)
    fits = rank in (2, 3) and shape[1:] == [rank, rank + 1]
    if not fits or not node.requirements.assume_equal(shape[0], sizes[0]):
        raise Unsupported(f"transforms images {written(sizes)} by {written(shape)}")
    places = node.emit(_column(node, transforms, rank), "moved")
    for axis, extent in enumerate(spatial):
        along = [extent if axis == place else 1 for place in range(rank)]
        centres = node.expression(node.reshaped(_centres(node, extent, dtype_of(transforms)), along))
        # x, of the last axis, comes first.
        factor = _column(node, transforms, rank - 1 - axis)
        places = node.emit(relax.op.add(places, node.emit(relax.op.multiply(factor, centres))), "places")
    return relax.op.permute_dims(places, [0, *range(2, rank + 2), 1])


def _column(node: Node, transforms: Expression, number: int) -> Expression:
    """A column of each transform, [N, rank, 1, ...]: one number for all pixels along an axis of the grid."""
    count, rank, _ = shape_of(transforms)
    column = node.emit(relax.op.strided_slice(transforms, [2], [number], [number + 1]), "column")
    return node.expression(node.reshaped(column, [count, rank, *[1] * rank]))


def _centres(node: Node, extent: Extent, dtype: str) -> Value:
    """Where pixels of an axis are between -1 and 1: its ends are corners of pixels, or centres of them."""
    aligned = bool(node.attributes.get("align_corners", 0))
    if isinstance(extent, int):
        indices = np.arange(extent, dtype=dtype)
        centres = 2 * indices / max(extent - 1, 1) - 1 if aligned else (2 * indices + 1) / extent - 1
        return centres.astype(dtype)
    steps = node.cast(node.expression(extents(greatest(extent - 1, 1) if aligned else extent)), dtype)
    indices = node.cast(node.emit(relax.op.arange(0, node.plain(extent), 1, "int64"), "indices"), dtype)
    doubled = node.emit(relax.op.multiply(node.emit(indices, "indices"), relax.const(2, dtype)), "doubled")
    if not aligned:
        doubled = node.emit(relax.op.add(doubled, relax.const(1, dtype)), "doubled")
    parts = node.emit(relax.op.divide(doubled, node.emit(steps, "steps")), "parts")
    return node.emit(relax.op.subtract(parts, relax.const(1, dtype)), "centres")


def _image(node: Node) -> list[Extent]:
    shape = shape_of(node.input(0))
    if len(shape) != 4:
        raise Unsupported(f"needs [N,C,H,W], not {written(shape)}")
    return shape


def _block(node: Node) -> int:
    block = int(node.attributes["blocksize"])
    if block < 1:
        raise Unsupported(f"has blocks of {block}")
    return block


_SAMPLED = {4: ("NCHW", [0, 3, 1, 2]), 5: ("NCDHW", [0, 4, 1, 2, 3])}
"""By rank the layout of images, and the order in which coordinates come first."""

_SAMPLING = {"linear": "bilinear", "cubic": "bicubic"}
"""ONNX's names since opset 20 for those before."""


def _grid_sample(node: Node) -> Value:
    image, dtype = node.input(0), dtype_of(node.input(0))
    shape, places = shape_of(image), shape_of(node.input(1))
    method = node.attributes.get("mode", "bilinear")
    method = _SAMPLING.get(method, method)
    if len(shape) not in _SAMPLED or len(places) != len(shape) or not dtype.startswith("float"):
        raise Unsupported(
            f"samples {dtype}{written(shape)} at {written(places)}; "
            "supported are images and volumes of floats"
        )
    if len(shape) == 5 and method == "bicubic":
        raise Unsupported(
            "samples a volume by cubic interpolation, which is not supported: "
            "export it with linear interpolation"
        )
    layout, order = _SAMPLED[len(shape)]
    data, aligned = node.tensor(0), bool(node.attributes.get("align_corners", 0))
    if aligned and node.attributes.get("padding_mode", "zeros") == "reflection":
        data = _of_several(node, data)
    # Places may be of another type; the result has that of the image.
    coordinates = relax.op.permute_dims(node.emit(node.cast(node.input(1), dtype), "places"), order)
    return relax.op.image.grid_sample(
        data,
        node.emit(coordinates, "coordinates"),
        method=method,
        layout=layout,
        padding_mode=node.attributes.get("padding_mode", "zeros"),
        align_corners=aligned,
    )


def _of_several(node: Node, data: Any) -> Any:
    """An image with two equal elements where an axis has one, between whose corners nothing is reflected.

    Of open extents there have to be more: TVM divides by how many elements lie between the corners.
    """
    for axis, extent in enumerate(shape_of(data)[2:], 2):
        if isinstance(extent, int):
            data = node.emit(relax.op.concat([data, data], axis), "twice") if extent == 1 else data
        else:
            node.requirements.more(extent, 1)
    return data


CONVERTERS: dict[str, Converter] = {
    "AffineGrid": _affine_grid,
    "Col2Im": columns_to_image,
    "DepthToSpace": _depth_to_space,
    "GridSample": _grid_sample,
    "Pad": padding.pad,
    "Resize": resizing.resize,
    "RoiAlign": _region_average,
    "SpaceToDepth": _space_to_depth,
    "Upsample": resizing.upsample,
}
