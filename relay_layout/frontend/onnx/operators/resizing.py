"""ONNX Resize and Upsample.

TVM's ``relax.image.resize2d`` derives the scale from the extents, while ONNX takes the given one, which
may differ when the scaled extent is rounded; it knows no antialiasing; and it rounds nearest-neighbour
coordinates in its own way. So it is used where it computes what ONNX defines, and elsewhere each axis is
resized on its own: nearest neighbour by picking elements, the other modes by a product with a constant
matrix of interpolation weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators.resizing_open import POSITIONS, ROUNDINGS, OpenAxis, scaled
from relay_layout.frontend.onnx.values import (
    Array,
    Extent,
    Unsupported,
    Value,
    dtype_of,
    same,
    shape_of,
)
from relay_layout.ir import is_static

_RESIZE2D_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_RESIZE2D_COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


_LARGEST_EXTENT = 2**20
_LARGEST_WEIGHTS = 2**28
"""Bounds on what a damaged file can make this module allocate, in elements."""

_UP_WHERE_SHRINKING = "up where shrinking"
"""How ONNX Runtime rounds coordinates of operators that have no nearest_mode yet."""


@dataclass(frozen=True)
class Mapping:
    """How the result of resizing reads its data; the attributes of Resize."""

    mode: str
    coordinates: str
    rounding: str
    cubic: float
    exclude_outside: bool
    antialias: bool
    outside: float


@dataclass(frozen=True)
class Axis:
    """One resized axis: extents before and after, the scale ONNX computes with, the region of interest."""

    axis: int
    before: Extent
    after: Extent
    scale: float | None
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def exact(self) -> bool:
        """Whether the scale is the ratio of the extents, as resize2d takes it."""
        if self.scale is None:
            return True
        if isinstance(self.before, int) and isinstance(self.after, int):
            return bool(np.float32(self.scale) == np.float32(self.after) / np.float32(self.before))
        return float(self.scale).is_integer()


def resize(node: Node) -> Value:
    """Resize of opset 10 and later."""
    attributes = node.attributes
    if node.opset < 11:
        return _plainly_resized(node, _numbers(node, 1))
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
    axes = _scaled_axes(node, scales, region) if scales else _sized_axes(node, node.extents(3), region)
    return _resized(node, mapping, axes)


def upsample(node: Node) -> Value:
    """Upsample of opset 7 to 9."""
    given = node.attributes.get("scales", ()) if node.opset < 9 else _numbers(node, 1)
    return _plainly_resized(node, list(given))


def _plainly_resized(node: Node, scales: Sequence[float]) -> Value:
    """Upsample and the first Resize, before there were attributes beside the mode."""
    rounding = _UP_WHERE_SHRINKING if any(scale < 1 for scale in scales) else "floor"
    mode = node.attributes.get("mode", "nearest")
    mapping = Mapping(mode, "asymmetric", rounding, -0.75, False, False, 0.0)
    return _resized(node, mapping, _scaled_axes(node, scales))


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
        if isinstance(before, int):
            after = math.floor(float(np.float32(scale) * np.float32(before) * np.float32(end - start)))
        else:
            after = scaled(before, scale)
        result.append(Axis(axis, before, after, scale, (start, end)))
    return result


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
        raise Unsupported(f"keeps the aspect ratio ({policy}) of a symbolic extent, which is not supported")
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
    cropping = mapping.coordinates == "tf_crop_and_resize"
    changed = [axis for axis in axes if cropping or axis.scale not in (None, 1.0) or not _is_held(node, axis)]
    if not changed:
        return node.input(0)
    data = node.tensor(0)
    if _fits_resize2d(mapping, changed, len(shape_of(data))):
        return _resize2d(data, mapping, changed)
    dtype = dtype_of(data)
    # Between integers lie numbers of which ONNX Runtime cuts off what is behind the point.
    is_cut = mapping.mode == "linear" and not mapping.antialias and not dtype.startswith(("float", "bfloat"))
    if is_cut:
        data = node.emit(node.cast(data, "float32"), "wide")
    if is_static([extent for axis in changed for extent in (axis.before, axis.after)]):
        data = _axis_by_axis(node, data, mapping, changed)
    else:
        for axis in changed:
            data = _open_axis(node, data, mapping, axis)
    return relax.op.astype(node.emit(data, "numbers"), dtype) if is_cut else data


def _open_axis(node: Node, data: Any, mapping: Mapping, axis: Axis) -> Any:
    """One axis resized at run time."""
    resized = OpenAxis(node, axis.axis, axis.before, axis.after, axis.scale)
    rounding = mapping.rounding
    if rounding == _UP_WHERE_SHRINKING:
        rounding = "ceil" if axis.scale is not None and axis.scale < 1 else "floor"
    if mapping.coordinates in POSITIONS:
        if mapping.mode == "nearest" and rounding in ROUNDINGS:
            return resized.picked(data, mapping.coordinates, rounding)
        if mapping.mode == "linear" and not mapping.antialias:
            return resized.interpolated(data, mapping.coordinates)
    raise Unsupported(
        "resizes a symbolic extent in a way that needs a fixed one: "
        "give the model's input a fixed shape (--input-shape)"
    )


def _is_held(node: Node, axis: Axis) -> bool:
    """Whether an axis keeps its extent; that of images or channels does where the file holds a number."""
    if same(axis.before, axis.after):
        return True
    is_open = axis.axis < 2 and isinstance(axis.after, int) and not isinstance(axis.before, int)
    return is_open and node.requirements.assume_equal(axis.before, axis.after)


def _fits_resize2d(mapping: Mapping, axes: list[Axis], rank: int) -> bool:
    return (
        rank == 4
        and {axis.axis for axis in axes} <= {2, 3}
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
            return True
        # No middle of an element lies between two that are repeated a whole number of times.
        repeats = axis.scale is not None and float(axis.scale).is_integer()
        return repeats and mapping.coordinates.endswith("half_pixel") and mapping.rounding.startswith("round")
    if mapping.rounding == _UP_WHERE_SHRINKING:
        return False
    positions = _positions(mapping, axis).astype("float64")
    rounded = {
        "floor": np.floor(positions + 1e-5),
        "ceil": np.ceil(positions - 1e-5),
        "round_prefer_floor": np.ceil(positions - 0.5),
        "round_prefer_ceil": np.floor(positions + 0.5),
    }[mapping.rounding]
    alike = bool(np.array_equal(np.clip(rounded, 0, axis.before - 1), _nearest(mapping, axis)))
    # Where resize2d's own ratio of the extents is inexact, a coordinate that lies on the border between two
    # elements may fall to either side.
    ends = 1 if mapping.coordinates == "align_corners" else 0
    divisor = Fraction(axis.before - ends, axis.after - ends).denominator
    border = 0.5 if mapping.rounding.startswith("round") else 0.0
    distance = np.abs((positions - border + 0.5) % 1 - 0.5)
    return alike and (divisor & (divisor - 1) == 0 or bool(np.all(distance > 1e-4)))


def _resize2d(data: Any, mapping: Mapping, axes: list[Axis]) -> Any:
    size = shape_of(data)[2:]
    for axis in axes:
        size[axis.axis - 2] = axis.after
    return relax.op.image.resize2d(
        data,
        size=relax.ShapeExpr(size),
        layout="NCHW",
        method=_RESIZE2D_METHODS[mapping.mode],
        coordinate_transformation_mode=mapping.coordinates,
        rounding_method=mapping.rounding if mapping.mode == "nearest" else "",
        cubic_alpha=mapping.cubic,
        cubic_exclude=int(mapping.exclude_outside),
    )


def _axis_by_axis(node: Node, data: Any, mapping: Mapping, axes: list[Axis]) -> Any:
    rank = len(shape_of(data))
    inside = np.ones((1,) * rank, bool)
    for axis in axes:
        positions = _positions(mapping, axis)
        if mapping.coordinates == "tf_crop_and_resize":
            within = (positions >= 0) & (positions <= axis.before - 1)
            inside = inside & within.reshape([-1 if index == axis.axis else 1 for index in range(rank)])
        if mapping.mode == "nearest":
            data = relax.op.take(data, node.expression(_nearest(mapping, axis)), axis.axis, mode="clip")
        else:
            data = _weighted(node, data, _weights(mapping, axis, positions), axis.axis)
        data = node.emit(data, f"axis{axis.axis}")
    if inside.all():
        return data
    return relax.op.where(node.expression(inside), data, node.like(mapping.outside, data))


def _weighted(node: Node, data: Any, weights: Array, axis: int) -> Any:
    """The product of ``weights``, [after,before], with one axis of ``data``."""
    rank = len(shape_of(data))
    dtype = dtype_of(data)
    if not dtype.startswith(("float", "bfloat")):
        raise Unsupported(f"interpolates between elements of type {dtype}, which is not supported")
    order = [index for index in range(rank) if index != axis] + [axis]
    if axis != rank - 1:
        data = node.emit(relax.op.permute_dims(data, order), "last")
    data = relax.op.matmul(data, node.expression(np.ascontiguousarray(weights.T).astype(dtype)))
    if axis == rank - 1:
        return data
    back = [order.index(index) for index in range(rank)]
    return relax.op.permute_dims(node.emit(data, "interpolated"), back)


def _positions(mapping: Mapping, axis: Axis) -> Array:
    """Where each element of the result lies in the data, in float32 as ONNX Runtime computes it."""
    one, half = np.float32(1), np.float32(0.5)
    before, after = np.float32(axis.before), np.float32(axis.after)
    scale = after / before if axis.scale is None else np.float32(axis.scale)
    index = np.arange(axis.after, dtype=np.float32)
    match mapping.coordinates:
        case "half_pixel":
            return (index + half) / scale - half
        case "pytorch_half_pixel":
            return (index + half) / scale - half if axis.after > 1 else np.zeros(1, np.float32)
        case "half_pixel_symmetric":
            middle = before / np.float32(2)
            offset = middle * (one - after / (scale * before))
            return offset + (index + half) / scale - half
        case "align_corners":
            return index * (before - one) / (after - one) if axis.after > 1 else np.zeros(1, np.float32)
        case "asymmetric":
            # ONNX Runtime multiplies here, and by the ratio of the extents where these are given.
            return index * (before / after if axis.scale is None else one / scale)
        case "tf_crop_and_resize":
            start, end = (np.float32(bound) for bound in axis.region)
            if axis.after == 1:
                return np.full(1, half * (start + end) * (before - one), np.float32)
            return start * (before - one) + index * ((end - start) * (before - one) / (after - one))
        case "tf_half_pixel_for_nn":
            return (index + half) / scale
    raise Unsupported(f"has the unknown coordinate_transformation_mode '{mapping.coordinates}'")


def _nearest(mapping: Mapping, axis: Axis) -> Array:
    """The element of the data that each element of the result repeats."""
    positions = _positions(mapping, axis)
    match mapping.rounding:
        case "round_prefer_floor":
            # Halves go down, everything else to the nearest.
            rounded = np.where(
                positions == np.floor(positions) + np.float32(0.5), np.floor(positions), _rounded(positions)
            )
        case "round_prefer_ceil":
            rounded = _rounded(positions)
        case "floor":
            rounded = np.floor(positions)
        case "ceil":
            rounded = np.ceil(positions)
        case "up where shrinking":
            rounded = np.ceil(positions) if axis.scale is not None and axis.scale < 1 else np.floor(positions)
        case _:
            raise Unsupported(f"has the unknown nearest_mode '{mapping.rounding}'")
    return np.clip(rounded, 0, axis.before - 1).astype("int64")


def _rounded(positions: Array) -> Array:
    """Halves away from zero, as C rounds."""
    return np.trunc(positions + np.copysign(np.float32(0.5), positions))


def _weights(mapping: Mapping, axis: Axis, positions: Array) -> Array:
    """Interpolation weights, float64 [after,before]; each row adds up to 1."""
    scale = axis.after / axis.before if axis.scale is None else axis.scale
    # Antialiasing widens the filter to the elements that fall together.
    stretch = max(1.0, 1 / scale) if mapping.antialias else 1.0
    radius = (2 if mapping.mode == "cubic" else 1) * stretch
    if axis.after * axis.before > _LARGEST_WEIGHTS:
        raise Unsupported(
            f"resizes axis {axis.axis} from {axis.before} to {axis.after} elements, which is too much"
        )
    exact = positions.astype("float64")[:, None]
    taps = np.ceil(exact - radius) + np.arange(math.floor(2 * radius) + 1)
    values = _filter(mapping, np.abs(taps - exact) / stretch)
    if mapping.exclude_outside:
        values = np.where((taps >= 0) & (taps < axis.before), values, 0.0)
    values = values / values.sum(axis=1, keepdims=True)
    weights = np.zeros((axis.after, axis.before))
    # What lies outside repeats the outermost element.
    columns = np.clip(taps, 0, axis.before - 1).astype("int64")
    np.add.at(weights, (np.arange(axis.after)[:, None], columns), values)
    return weights


def _filter(mapping: Mapping, distance: Array) -> Array:
    if mapping.mode == "linear":
        return np.maximum(1 - distance, 0)
    a = mapping.cubic
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
