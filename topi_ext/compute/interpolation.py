"""Interpolation along one axis of a tensor: linear, or cubic (Keys, 1981), as ONNX's Resize defines them."""

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.topi.image.resize import get_closest_index
from tvm.topi.image.resize import get_inx as source_coordinate

from topi_ext.compute.selection import chosen
from topi_ext.extents import is_one

TAPS = {"linear": 2, "cubic": 4}
"""Elements that are read for one element of the result, by method."""


def interpolate(
    data: te.Tensor,
    axis: int,
    extent: Any,
    *,
    method: str,
    coordinates: str,
    cubic_alpha: float = -0.75,
    cubic_exclude: bool = False,
) -> te.Tensor:
    """``data`` with ``extent`` elements along ``axis``; float32.

    ``coordinates`` is a coordinate transformation mode of ONNX's Resize that needs no region of interest.
    Elements outside are those at the edge; with ``cubic_exclude`` they have no weight.

    Where an element of the result lies does not depend on the other axes: places and weights of each tap are
    tensors of their own, which the loops over the other axes share.
    """
    taps = TAPS[method]
    size = tirx.const(data.shape[axis], "int32") if isinstance(data.shape[axis], int) else data.shape[axis]
    last = size - 1
    extent = tirx.const(extent, "int32") if isinstance(extent, int) else extent

    def coordinate(element: Any) -> Any:
        if coordinates == "align_corners":
            first = tirx.const(0.0, "float32")
            if is_one(extent):
                return first
            moved = tirx.Cast("float32", element) * tirx.Cast("float32", last)
            # The only element of a result is at the first one.
            return tirx.Select(extent > 1, moved / tirx.Cast("float32", extent - 1), first)
        return source_coordinate(element, size, extent, coordinates)

    def first(element: Any) -> Any:
        return te.floor(coordinate(element)).astype("int32") - (taps // 2 - 1)

    def place(tap: Any, element: Any) -> Any:
        return te.max(te.min(first(element) + tap, last), 0).astype("int32")

    def weight(tap: Any, element: Any) -> Any:
        position = coordinate(element)
        fraction = position - te.floor(position)
        if method == "linear":
            return chosen(tap, [1.0 - fraction, fraction])
        weights = _cubic_weights(fraction, cubic_alpha)
        if cubic_exclude:
            weights = _weights_inside(weights, first(element), last)
        return chosen(tap, weights)

    places = te.compute((taps, extent), place, name="places")
    weights = te.compute((taps, extent), weight, name="weights")

    def element(*index: Any) -> Any:
        before, own, after = index[:axis], index[axis], index[axis + 1 :]
        read = [data(*before, places(tap, own), *after).astype("float32") for tap in range(taps)]
        return sum(value * weights(tap, own) for tap, value in enumerate(read))

    shape = [*data.shape[:axis], extent, *data.shape[axis + 1 :]]
    return te.compute(shape, element, name="interpolation")


def nearest(size: int, extent: int, coordinates: str, rounding: str) -> Callable[[Any], Any]:
    """Which of ``size`` elements along an axis is at a place in a result of ``extent`` elements.

    ``coordinates`` is as in :func:`interpolate`, ``rounding`` as of ONNX's Resize, or "" for the usual one.
    Where each element is taken equally often, or one of every so many, that is a quotient or a product. Else
    places are a tensor of their own, which is read for each element.
    """
    centred = coordinates in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
    cornered = coordinates == "asymmetric" and rounding in ("floor", "")
    if extent % size == 0 and (centred or cornered):
        return lambda element: element // (extent // size)
    if size % extent == 0 and cornered:
        return lambda element: element * (size // extent)
    closest = rounding or ("round" if coordinates == "align_corners" else "floor")

    def place(element: Any) -> Any:
        whole, grown = tirx.const(size, "int32"), tirx.const(extent, "int32")
        found = get_closest_index(source_coordinate(element, whole, grown, coordinates), closest, None)
        return te.max(te.min(found, size - 1), 0).astype("int32")

    places = te.compute((extent,), place, name="places")
    return lambda element: places(element)


def _cubic_weights(fraction: Any, alpha: float) -> list[Any]:
    """Weights of the pixel before the one at or left of the coordinate, that one, and the two after it."""
    square, cube = fraction * fraction, fraction * fraction * fraction
    return [
        alpha * (cube - 2 * square + fraction),
        (alpha + 2) * cube - (3 + alpha) * square + 1,
        -(alpha + 2) * cube + (3 + 2 * alpha) * square - alpha * fraction,
        -alpha * cube + alpha * square,
    ]


def _weights_inside(weights: list[Any], first: Any, last: Any) -> list[Any]:
    """Weights of elements from ``first`` on, those of 0 to ``last`` alone, which then add up to one."""
    nothing = tirx.const(0.0, "float32")
    inside = [
        tirx.Select(te.all(first + place >= 0, first + place <= last), weight, nothing)
        for place, weight in enumerate(weights)
    ]
    total = sum(inside)
    return [weight / total for weight in inside]
