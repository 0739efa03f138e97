"""Where the elements of a resized axis lie among those of its data, and what these weigh, as ONNX defines it.

The formulas are those of :mod:`relay_layout.frontend.operators.resampling`, in single precision as in
ONNX Runtime.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relay_layout.frontend.operators.resampling import NUMPY, Formula, ResizedAxis, weight_at
from relay_layout.frontend.values import Array, Unsupported
from relay_layout.ir import Extent

UP_WHERE_SHRINKING = "up where shrinking"
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

    @property
    def crops(self) -> bool:
        """Whether a region of interest is resized, which may reach beyond the data."""
        return self.coordinates == "tf_crop_and_resize"


@dataclass(frozen=True)
class Axis(ResizedAxis):
    """One resized axis: extents before and after, the scale ONNX computes with, the region of interest."""

    scale: float | None
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def exact(self) -> bool:
        """Whether the scale is the ratio of the extents, as resize2d takes it."""
        if self.scale is None:
            return True
        if self.is_known:
            return bool(np.float32(self.scale) == np.float32(self.after) / np.float32(self.before))
        return float(self.scale).is_integer()


def known(formula: Formula, axis: Axis) -> Array:
    """What a formula gives for each element of an axis of known extents."""
    found = formula(NUMPY, NUMPY.real(np.arange(axis.after)), axis.before, axis.after)
    return np.broadcast_to(found, axis.after)


def position(mapping: Mapping, axis: Axis) -> Formula:
    """Where an element of the result lies in the data."""
    if mapping.coordinates not in _POSITIONS:
        raise Unsupported(
            f"has the unknown coordinate_transformation_mode '{mapping.coordinates}': "
            f"the known ones are {', '.join(_POSITIONS)}"
        )
    place = _POSITIONS[mapping.coordinates]
    return lambda functions, element, before, after: place(
        axis, functions, element, functions.real(before), functions.real(after)
    )


def nearest(mapping: Mapping, axis: Axis) -> Formula:
    """The element of the data that an element of the result repeats."""
    place, rounding = position(mapping, axis), mapping.rounding
    if rounding == UP_WHERE_SHRINKING:
        rounding = "ceil" if axis.scale is not None and axis.scale < 1 else "floor"
    if rounding not in _ROUNDINGS:
        raise Unsupported(
            f"has the unknown nearest_mode '{rounding}': the known ones are {', '.join(_ROUNDINGS)}"
        )
    rounded = _ROUNDINGS[rounding]

    def formula(functions: Any, element: Any, before: Any, after: Any) -> Any:
        found = functions.place(rounded(functions, place(functions, element, before, after)))
        return functions.minimum(functions.maximum(found, 0), before - 1)

    return formula


def within(mapping: Mapping, axis: Axis) -> Formula:
    """Whether an element of the result lies in the data."""
    place = position(mapping, axis)

    def formula(functions: Any, element: Any, before: Any, after: Any) -> Any:
        found = place(functions, element, before, after)
        return functions.both(found >= 0, found <= functions.real(before) - 1.0)

    return formula


def between(mapping: Mapping, axis: Axis) -> Formula:
    """The position that is interpolated at: of two elements, or in a region, it is within the data."""
    place = position(mapping, axis)
    if not mapping.crops and (mapping.mode == "cubic" or mapping.antialias):
        return place

    def formula(functions: Any, element: Any, before: Any, after: Any) -> Any:
        found = functions.maximum(place(functions, element, before, after), functions.real(0))
        return functions.minimum(found, functions.real(before) - 1.0)

    return formula


def taps(mapping: Mapping) -> tuple[int, ...]:
    """The elements that are read around a position, counted from the one below it."""
    return (-1, 0, 1, 2) if mapping.mode == "cubic" else (0, 1)


def weight_of_neighbour(mapping: Mapping, axis: Axis) -> Callable[..., Any]:
    """``weight(tap, functions, element, before, after)``: what one of the ``taps`` weighs."""
    place = between(mapping, axis)

    def one(tap: int, functions: Any, part: Any, below: Any, before: Any) -> Any:
        distance = part - float(tap) if tap < 1 else float(tap) - part
        found = _weight(mapping, functions, distance)
        if not mapping.exclude_outside:
            return found
        is_inside = functions.both(below + float(tap) >= 0, below + float(tap) < functions.real(before))
        return functions.where(is_inside, found, functions.real(0))

    def weight(tap: int, functions: Any, element: Any, before: Any, after: Any) -> Any:
        found = place(functions, element, before, after)
        below = functions.floor(found)
        share = one(tap, functions, found - below, below, before)
        if not mapping.exclude_outside:
            return share
        return share / sum(one(other, functions, found - below, below, before) for other in taps(mapping))

    return weight


def weight_in_matrix(mapping: Mapping, axis: Axis) -> Callable[..., Any]:
    """``weight(functions, row, column, before, after)``: what an element weighs in one of the result.

    Antialiasing widens the filter to the elements that fall together.
    """
    place = between(mapping, axis)

    def weight(functions: Any, row: Any, column: Any, before: Any, after: Any) -> Any:
        offset = row - place(functions, column, before, after)
        distance = functions.maximum(offset, -offset)
        if mapping.antialias:
            step = _step(axis, functions, functions.real(before), functions.real(after))
            distance = functions.divided(distance, functions.maximum(step, functions.real(1)))
        return _weight(mapping, functions, distance)

    return weight


def reach(mapping: Mapping, axis: Axis) -> Extent:
    """How many elements beyond the data have weights, which are then those of the outermost one."""
    radius = 2 if mapping.mode == "cubic" else 1
    if mapping.exclude_outside or (radius == 1 and not mapping.antialias):
        return 0
    if not mapping.antialias:
        return radius
    if axis.scale is not None:
        return math.ceil(radius * max(1.0, 1 / axis.scale)) + 1
    return radius * ((axis.before + axis.after - 1) // axis.after) + 1


def _weight(mapping: Mapping, functions: Any, distance: Any) -> Any:
    return weight_at(functions, distance, cubic=mapping.mode == "cubic", sharpness=mapping.cubic)


def _step(axis: Axis, functions: Any, before: Any, after: Any) -> Any:
    """How far apart elements of the result are, in elements of the data."""
    if axis.scale is None:
        return functions.divided(before, after)
    return functions.real(np.float32(1) / np.float32(axis.scale))


def _scale(axis: Axis, functions: Any, before: Any, after: Any) -> Any:
    return functions.divided(after, before) if axis.scale is None else functions.real(np.float32(axis.scale))


def _middle(axis: Axis, functions: Any, element: Any, before: Any, after: Any) -> Any:
    return functions.divided(element + 0.5, _scale(axis, functions, before, after))


def _half_pixel(axis: Axis, functions: Any, element: Any, before: Any, after: Any) -> Any:
    return _middle(axis, functions, element, before, after) - 0.5


def _half_pixel_of_several(axis: Axis, functions: Any, element: Any, before: Any, after: Any) -> Any:
    several = _half_pixel(axis, functions, element, before, after)
    return functions.where(after > 1, several, functions.real(0))


def _half_pixel_symmetric(axis: Axis, functions: Any, element: Any, before: Any, after: Any) -> Any:
    scale = _scale(axis, functions, before, after)
    missing = 1.0 - functions.divided(after, scale * before)
    return _rounded(before, missing) + _middle(axis, functions, element, before, after) - 0.5


def _align_corners(axis: Axis, functions: Any, element: Any, before: Any, after: Any) -> Any:
    return functions.divided(element * (before - 1.0), functions.maximum(after - 1.0, functions.real(1)))


def _asymmetric(axis: Axis, functions: Any, element: Any, before: Any, after: Any) -> Any:
    # ONNX Runtime multiplies here, and by the ratio of the extents where these are given.
    return element * _step(axis, functions, before, after)


def _crop_and_resize(axis: Axis, functions: Any, element: Any, before: Any, after: Any) -> Any:
    start, end = (functions.real(bound) for bound in axis.region)
    last = before - 1.0
    part = functions.divided(
        element * (end - start) * last, functions.maximum(after - 1.0, functions.real(1))
    )
    several = _rounded(start * 2.0, last) + part
    return functions.where(after > 1, several, (start + end) * 0.5 * last)


def _rounded(double: Any, number: Any) -> Any:
    """Half of a product, which is rounded also where a compiler multiplies and adds in one instruction."""
    return double * number * 0.5


_POSITIONS: dict[str, Callable[..., Any]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _half_pixel_of_several,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_crop_and_resize": _crop_and_resize,
    "tf_half_pixel_for_nn": _middle,
}


def _half_down(functions: Any, place: Any) -> Any:
    """Halves go down, everything else to the nearest."""
    below = functions.floor(place)
    return functions.where(functions.same(place, below + 0.5), below, functions.floor(place + 0.5))


_ROUNDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "floor": lambda functions, place: functions.floor(place),
    "ceil": lambda functions, place: functions.ceil(place),
    "round_prefer_floor": _half_down,
    "round_prefer_ceil": lambda functions, place: functions.floor(place + 0.5),
}
