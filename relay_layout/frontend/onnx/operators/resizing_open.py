"""Resizing of extents that are known at run time alone, where ``resize2d`` computes something else.

What is read for each element of the result is worked out at run time, in float32 as ONNX Runtime does.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.values import (
    Array,
    Extent,
    Unsupported,
    dtype_of,
    extents,
    shape_of,
    simplify,
)

_LARGEST_DENOMINATOR = 64
_LARGEST_EXTENT = 1 << 14
"""Extents for which a scaled one is checked to be what float32 gives."""

POSITIONS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def scaled(extent: Extent, scale: float) -> Extent:
    """An open extent times ``scale``, rounded down; Unsupported where float32 gives no plain quotient."""
    ratio = Fraction(scale).limit_denominator(_LARGEST_DENOMINATOR)
    sizes: Array = np.arange(1, _LARGEST_EXTENT)
    computed = np.floor(sizes.astype("float32") * np.float32(scale))
    if not np.array_equal(computed, sizes * ratio.numerator // ratio.denominator):
        raise Unsupported(
            f"scales the symbolic extent '{extent}' by {scale}: "
            "give the model's input a fixed shape (--input-shape)"
        )
    return simplify(extent * ratio.numerator // ratio.denominator)


class OpenAxis:
    """An axis of ``before`` elements that becomes one of ``after``, ``scale`` times as many if given."""

    def __init__(self, node: Node, axis: int, before: Extent, after: Extent, scale: float | None) -> None:
        self._node = node
        self._axis = axis
        self._before, self._after = self._number(before), self._number(after)
        self._count = node.plain(after)
        self._scale = None if scale is None else relax.const(np.float32(scale))

    def picked(self, data: Any, coordinates: str, rounding: str) -> Any:
        """For each element the nearest of ``data``."""
        places = self._positions(coordinates)
        below = self._do(relax.op.floor, places)
        part = self._do(relax.op.subtract, places, below)
        if rounding != "floor":
            threshold, is_up = _THRESHOLDS[rounding]
            up = self._do(is_up, part, relax.const(np.float32(threshold)))
            below = self._do(relax.op.add, below, self._do(relax.op.astype, up, "float32"))
        return self._taken(data, self._inside(below))

    def interpolated(self, data: Any, coordinates: str) -> Any:
        """For each element the two of ``data`` around its position, weighted by how near they are."""
        dtype = dtype_of(data)
        if "float" not in dtype:
            raise Unsupported(f"interpolates between elements of type {dtype}, which is not supported")
        places = self._inside(self._positions(coordinates))
        below = self._do(relax.op.floor, places)
        part = self._do(relax.op.subtract, places, below)
        shape = [1] * len(shape_of(data))
        shape[self._axis] = self._count
        weight = self._do(relax.op.reshape, part, relax.ShapeExpr(shape))
        weight = self._do(relax.op.astype, weight, dtype)
        one = relax.const(np.float32(1))
        first = self._taken(data, below)
        second = self._taken(data, self._inside(self._do(relax.op.add, below, one)))
        step = self._do(relax.op.subtract, second, first)
        return self._do(relax.op.add, first, self._do(relax.op.multiply, step, weight))

    def _positions(self, coordinates: str) -> Any:
        """Where each element of the result lies among those of the data."""
        half, one = relax.const(np.float32(0.5)), relax.const(np.float32(1))
        index = self._do(relax.op.astype, self._do(relax.op.arange, 0, self._count, 1, "int64"), "float32")
        if coordinates == "asymmetric":
            return self._do(relax.op.multiply, index, self._step())
        if coordinates == "align_corners":
            last, others = (
                self._do(relax.op.subtract, number, one) for number in (self._before, self._after)
            )
            share = self._do(relax.op.multiply, index, last)
            return self._do(relax.op.divide, share, self._do(relax.op.maximum, others, one))
        scale = self._scale or self._do(relax.op.divide, self._after, self._before)
        middle = self._do(relax.op.divide, self._do(relax.op.add, index, half), scale)
        places = self._do(relax.op.subtract, middle, half)
        if coordinates == "half_pixel":
            return places
        is_several = self._do(relax.op.astype, self._do(relax.op.greater, self._after, one), "float32")
        return self._do(relax.op.multiply, places, is_several)

    def _step(self) -> Any:
        if self._scale is None:
            return self._do(relax.op.divide, self._before, self._after)
        return self._do(relax.op.divide, relax.const(np.float32(1)), self._scale)

    def _inside(self, places: Any) -> Any:
        last = self._do(relax.op.subtract, self._before, relax.const(np.float32(1)))
        above = self._do(relax.op.maximum, places, relax.const(np.float32(0)))
        return self._do(relax.op.minimum, above, last)

    def _taken(self, data: Any, places: Any) -> Any:
        return self._do(relax.op.take, data, self._do(relax.op.astype, places, "int64"), self._axis, "clip")

    def _number(self, extent: Extent) -> Any:
        if isinstance(extent, int):
            return relax.const(np.float32(extent))
        return self._do(relax.op.astype, self._node.expression(extents(extent)), "float32")

    def _do(self, operator: Callable[..., Any], *operands: Any) -> Any:
        return self._node.emit(operator(*operands), "resized")


_THRESHOLDS: dict[str, tuple[float, Callable[[Any, Any], Any]]] = {
    "ceil": (0.0, relax.op.greater),
    "round_prefer_floor": (0.5, relax.op.greater),
    "round_prefer_ceil": (0.5, relax.op.greater_equal),
}
"""The part of a position from which on, or above which, the next element is taken."""


__all__ = ["POSITIONS", "ROUNDINGS", "OpenAxis", "scaled"]
