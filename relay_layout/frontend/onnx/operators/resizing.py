"""ONNX Resize and Upsample.

TVM's ``relax.image.resize2d`` derives the scale from the extents, while ONNX takes the given one, which
may differ when the scaled extent is rounded; it knows no antialiasing; and it rounds nearest-neighbour
coordinates in its own way. So it is used where it computes what ONNX defines, and elsewhere each axis is
resized on its own: nearest neighbour by picking elements, the other modes by a product with a matrix of
interpolation weights, or, where open extents are not antialiased, by weighting the elements around a place.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import same, simplify
from relay_layout.frontend.extents.quotients import quotient
from relay_layout.frontend.extents.residues import never_more
from relay_layout.frontend.identifiers import identifier
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators.resized_places import (
    UP_WHERE_SHRINKING,
    Axis,
    Mapping,
    between,
    known,
    nearest,
    position,
    reach,
    taps,
    weight_in_matrix,
    weight_of_neighbour,
    within,
)
from relay_layout.frontend.operators.resampling import Resampling
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of
from relay_layout.ir import Extent, is_static

_RESIZE2D_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_RESIZE2D_COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
_IMAGE_AXES = {"NCHW": (2, 3), "NHWC": (1, 2)}

_OLD_MODES = {"bilinear": "linear"}

_LARGEST_EXTENT = 2**20
_LARGEST_WEIGHTS = 2**28
"""Bounds on what a damaged file can make this module allocate, in elements."""


def resize(node: Node) -> Value:
    """Resize of opset 10 and later."""
    attributes = node.attributes
    if node.opset < 11:
        return _plainly_resized(node, _scales(node))
    mapping = Mapping(
        attributes.get("mode", "nearest"),
        attributes.get("coordinate_transformation_mode", "half_pixel"),
        attributes.get("nearest_mode", "round_prefer_floor"),
        attributes.get("cubic_coeff_a", -0.75),
        bool(attributes.get("exclude_outside", 0)),
        bool(attributes.get("antialias", 0)),
        attributes.get("extrapolation_value", 0.0),
    )
    region = _numbers(node, 1) if mapping.coordinates == "tf_crop_and_resize" else []
    scales = _numbers(node, 2) if node.has(2) else []
    axes = (
        _scaled_axes(node, scales, region) if scales else _sized_axes(node, node.counted_extents(3), region)
    )
    return _resized(node, mapping, axes)


def upsample(node: Node) -> Value:
    """Upsample of opset 9 and older, of which the first one scales images by two attributes."""
    if node.opset >= 9:
        return _plainly_resized(node, _scales(node))
    if node.opset < 7:
        given = [1.0, 1.0, *(node.attributes.get(f"{side}_scale", 1.0) for side in ("height", "width"))]
        return _plainly_resized(node, given)
    return _plainly_resized(node, list(node.attributes.get("scales", ())))


def _scales(node: Node) -> list[float] | None:
    """The scales of an operator that has no sizes; None where it was given sizes in their place."""
    return None if node.has(3) else _numbers(node, 1)


def _plainly_resized(node: Node, scales: Sequence[float] | None) -> Value:
    """Upsample and the first Resize, before there were attributes beside the mode."""
    mode = node.attributes.get("mode", "nearest")
    mode = _OLD_MODES.get(mode, mode)
    if scales is not None:
        axes = _scaled_axes(node, scales)
        rounding = UP_WHERE_SHRINKING if any(scale < 1 for scale in scales) else "floor"
    else:
        axes = _sized_axes(node, node.extents(3), [])
        # Upsample never shrinks.
        rounding = _rounding(axes) if (mode, node.operator) == ("nearest", "Resize") else "floor"
    return _resized(node, Mapping(mode, "asymmetric", rounding, -0.75, False, False, 0.0), axes)


def _rounding(axes: Sequence[Axis]) -> str:
    """How ONNX Runtime rounds coordinates along axes whose scales the sizes of images decide."""
    if all(never_more(axis.before, axis.after, least=1) for axis in axes):
        return "floor"
    if all(never_more(axis.after, axis.before, least=1) for axis in axes):
        return "ceil"
    raise Unsupported(
        "may shrink some images and enlarge others, for which elements are picked in two ways: "
        "export the model with opset 11 or newer, or give its inputs fixed shapes (--input-shape)"
    )


def _numbers(node: Node, index: int) -> list[float]:
    return [float(number) for number in node.constant(index).reshape(-1)] if node.has(index) else []


def _axes(node: Node, count: int) -> list[int]:
    rank = len(shape_of(node.input(0)))
    axes = [node.axis(axis, rank) for axis in node.attributes.get("axes", range(rank))]
    if len(axes) != count or len(set(axes)) != count:
        raise Unsupported(f"gives {count} scales or sizes for axes {axes}")
    return axes


def _regions(region: Sequence[float], count: int) -> list[tuple[float, float]]:
    if not region:
        return [(0.0, 1.0)] * count
    if len(region) != 2 * count:
        raise Unsupported(f"has a region of interest of {len(region)} numbers for {count} axes")
    return list(zip(region[:count], region[count:], strict=True))


def _scaled_axes(node: Node, scales: Sequence[float], region: Sequence[float] = ()) -> list[Axis]:
    shape = shape_of(node.input(0))
    result = []
    positions = zip(_axes(node, len(scales)), scales, _regions(region, len(scales)), strict=True)
    for axis, scale, (start, end) in positions:
        before = shape[axis]
        if not (scale > 0 and math.isfinite(scale)):
            raise Unsupported(f"scales axis {axis} by {scale}")
        after = _scaled(before, scale, end - start)
        result.append(Axis(axis, before, after, scale, (start, end)))
    return result


def _scaled(extent: Extent, scale: float, share: float) -> Extent:
    """The ``share`` of an extent, times ``scale``, rounded down as ONNX Runtime rounds."""

    def counted(sizes: Array) -> Array:
        return np.floor(np.float32(scale) * sizes.astype("float32") * np.float32(share))

    if isinstance(extent, int):
        return int(counted(np.array(extent)))
    try:
        return simplify(quotient(extent, counted))
    except ValueError:
        raise Unsupported(
            f"scales the symbolic extent '{extent}' by {scale:g}, which rounds to no fraction of it: "
            "export the model with sizes in place of scales, or give its input a fixed shape (--input-shape)"
        ) from None


def _sized_axes(node: Node, sizes: Sequence[Extent], region: Sequence[float]) -> list[Axis]:
    shape = shape_of(node.input(0))
    axes = _axes(node, len(sizes))
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    regions = _regions(region, len(sizes))
    if policy == "stretch":
        return [
            Axis(axis, shape[axis], size, None, bounds)
            for axis, size, bounds in zip(axes, sizes, regions, strict=True)
        ]
    if not is_static([*sizes, *(shape[axis] for axis in axes)]):
        raise Unsupported(
            f"keeps the aspect ratio ({policy}) of a symbolic extent, which is not supported: "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    ratios = [np.float32(size) / np.float32(shape[axis]) for axis, size in zip(axes, sizes, strict=True)]
    scale = float(min(ratios) if policy == "not_larger" else max(ratios))
    return [
        Axis(axis, shape[axis], math.floor(scale * shape[axis] + 0.5), scale, bounds)
        for axis, bounds in zip(axes, regions, strict=True)
    ]


def _resized(node: Node, mapping: Mapping, axes: list[Axis]) -> Value:
    if mapping.mode not in _RESIZE2D_METHODS:
        raise Unsupported(f"resizes in the unknown mode '{mapping.mode}'")
    for axis in axes:
        if isinstance(axis.after, int) and not 1 <= axis.after <= _LARGEST_EXTENT:
            raise Unsupported(f"resizes axis {axis.axis} to {axis.after} elements")
    changed = [
        axis for axis in axes if mapping.crops or axis.scale not in (None, 1.0) or not _is_held(node, axis)
    ]
    if not changed:
        return node.input(0)
    data = node.tensor(0)
    if _fits_resize2d(mapping, changed, len(shape_of(data))):
        return _resize2d(data, mapping, changed)
    dtype = dtype_of(data)
    is_real = dtype.startswith(("float", "bfloat"))
    # Between integers lie numbers of which ONNX Runtime cuts off what is behind the point.
    is_cut = mapping.mode == "linear" and not mapping.antialias and not is_real
    if is_cut:
        data = node.emit(node.cast(data, "float32"), "wide")
    elif mapping.mode != "nearest" and not is_real:
        how = "antialiases" if mapping.antialias else "interpolates cubically"
        raise Unsupported(
            f"{how} between elements of type {dtype}, which is not supported: cast them to float32 before"
        )
    changed = [
        replace(axis, before=node.plain(axis.before), after=node.plain(axis.after)) for axis in changed
    ]
    for axis in changed:
        data = _along(node, data, mapping, axis)
    data = _cropped(node, data, mapping, changed) if mapping.crops else data
    return relax.op.astype(node.emit(data, "numbers"), dtype) if is_cut else data


def _along(node: Node, data: Any, mapping: Mapping, axis: Axis) -> Any:
    """One axis resized."""
    resampling = Resampling(node.builder, identifier(f"{node.outputs[0]}_axis{axis.axis}"))
    if mapping.mode == "nearest":
        return resampling.picked(data, axis, nearest(mapping, axis))
    if axis.is_known and axis.after * axis.before > _LARGEST_WEIGHTS:
        raise Unsupported(
            f"resizes axis {axis.axis} from {axis.before} to {axis.after} elements, which is too much"
        )
    if axis.is_known or mapping.antialias:
        weight, around = weight_in_matrix(mapping, axis), node.plain(reach(mapping, axis))
        return resampling.by_matrix(data, axis, weight, around)
    place, share = between(mapping, axis), weight_of_neighbour(mapping, axis)
    return resampling.from_neighbours(data, axis, taps(mapping), place, share)


def _cropped(node: Node, data: Any, mapping: Mapping, axes: list[Axis]) -> Any:
    """The value beyond the data where a region reaches there."""
    rank = len(shape_of(data))
    masks: list[Value] = [np.ones((1,) * rank, bool)]
    for axis in axes:
        spread = [axis.after if index == axis.axis else 1 for index in range(rank)]
        inside = within(mapping, axis)
        if axis.is_known:
            masks[0] = masks[0] & known(inside, axis).reshape(spread)
        else:
            numbers = Resampling(node.builder).computed(axis, "bool", inside)
            masks.append(node.reshaped(numbers, spread))
    for mask in masks[int(masks[0].all()) :]:
        data = relax.op.where(node.expression(mask), data, node.like(mapping.outside, data))
        data = node.emit(data, "within")
    return data


def _is_held(node: Node, axis: Axis) -> bool:
    """Whether an axis keeps its extent; that of images or channels does where the file holds a number."""
    if same(axis.before, axis.after):
        return True
    is_open = axis.axis < 2 and isinstance(axis.after, int) and not isinstance(axis.before, int)
    return is_open and node.requirements.assume_equal(axis.before, axis.after)


def _fits_resize2d(mapping: Mapping, axes: list[Axis], rank: int) -> bool:
    return (
        rank == 4
        and _layout_of(axes) is not None
        and all(axis.exact for axis in axes)
        and mapping.coordinates in _RESIZE2D_COORDINATES
        and not mapping.antialias
        and (mapping.coordinates != "align_corners" or all(axis.after != 1 for axis in axes))
        and (mapping.mode != "nearest" or all(_picks_alike(mapping, axis) for axis in axes))
    )


def _picks_alike(mapping: Mapping, axis: Axis) -> bool:
    """Whether resize2d picks the same elements; for symbolic extents where that is known to hold."""
    if not isinstance(axis.before, int) or not isinstance(axis.after, int):
        if (mapping.coordinates, mapping.rounding) == ("asymmetric", "floor"):
            # TVM computes the ratio of a number to an extent as if it knew both.
            return not isinstance(axis.after, int)
        # No middle of an element lies between two that are repeated a whole number of times.
        repeats = axis.scale is not None and float(axis.scale).is_integer()
        return repeats and mapping.coordinates.endswith("half_pixel") and mapping.rounding.startswith("round")
    if mapping.rounding == UP_WHERE_SHRINKING:
        return False
    positions = known(position(mapping, axis), axis).astype("float64")
    rounded = {
        "floor": np.floor(positions + 1e-5),
        "ceil": np.ceil(positions - 1e-5),
        "round_prefer_floor": np.ceil(positions - 0.5),
        "round_prefer_ceil": np.floor(positions + 0.5),
    }[mapping.rounding]
    alike = bool(np.array_equal(np.clip(rounded, 0, axis.before - 1), known(nearest(mapping, axis), axis)))
    # Where resize2d's own ratio of the extents is inexact, a coordinate that lies on the border between two
    # elements may fall to either side.
    ends = 1 if mapping.coordinates == "align_corners" else 0
    divisor = Fraction(axis.before - ends, axis.after - ends).denominator
    border = 0.5 if mapping.rounding.startswith("round") else 0.0
    distance = np.abs((positions - border + 0.5) % 1 - 0.5)
    return alike and (divisor & (divisor - 1) == 0 or bool(np.all(distance > 1e-4)))


def _layout_of(axes: list[Axis]) -> str | None:
    """The layout of an image in which these are rows and columns."""
    changed = {axis.axis for axis in axes}
    return next((layout for layout, places in _IMAGE_AXES.items() if changed <= set(places)), None)


def _resize2d(data: Any, mapping: Mapping, axes: list[Axis]) -> Any:
    shape, layout = shape_of(data), _layout_of(axes)
    for axis in axes:
        shape[axis.axis] = axis.after
    return relax.op.image.resize2d(
        data,
        size=relax.ShapeExpr([shape[place] for place in _IMAGE_AXES[str(layout)]]),
        layout=layout,
        method=_RESIZE2D_METHODS[mapping.mode],
        coordinate_transformation_mode=mapping.coordinates,
        rounding_method=mapping.rounding if mapping.mode == "nearest" else "",
        cubic_alpha=mapping.cubic,
        cubic_exclude=int(mapping.exclude_outside),
    )
