"""Extents in floating point, where exporters divide them before they are rounded up or down.

Old exporters give scales of images as well by what they divide: the size that is due by the one there is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import same, simplify
from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.onnx.arithmetic import MOVES, elements_of
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.operators.ranges import open_range
from relay_layout.frontend.values import Array, Extents, Unsupported, Value, dtype_of, extents, shape_of
from relay_layout.ir import Expression, Extent

_LARGEST = 2**12
"""What both parts of a factor are at most: then no rounding of floats takes an extent past an integer."""


@dataclass(frozen=True)
class _Ratio:
    """A float that is ``extent`` times ``factor``, by the extent ``divisor``."""

    extent: Extent
    factor: Fraction = Fraction(1)
    divisor: Extent = 1

    def rounded(self, *, up: bool = False) -> Extent | None:
        """The extent next to it; None where it is divided, and nobody knows on which side it is."""
        if not same(self.divisor, 1):
            return None
        more = self.factor.denominator - 1 if up else 0
        return simplify((self.extent * self.factor.numerator + more) // self.factor.denominator)

    def times(self, factor: Fraction) -> "_Ratio | None":
        """It times a number; None where rounding could not be told then."""
        product = self.factor * factor
        fits = product > 0 and max(product.as_integer_ratio()) <= _LARGEST
        return replace(self, factor=product) if fits else None

    def plus(self, number: Fraction) -> "_Ratio | None":
        """It and a whole number; None where it is divided, and for others."""
        if not same(self.divisor, 1) or number.denominator != 1 or abs(number) > _LARGEST:
            return None
        whole = self.extent * self.factor.numerator + int(number) * self.factor.denominator
        return _Ratio(simplify(whole), Fraction(1, self.factor.denominator))

    def over(self, other: "_Ratio") -> "_Ratio | None":
        """It by another; None where both are divided."""
        if not same(other.divisor, 1):
            return None
        divided = replace(self, divisor=simplify(self.divisor * other.extent))
        return divided.times(1 / other.factor)

    def size_of(self, extent: Extent) -> Extent | None:
        """``extent`` scaled by this ratio; None where that is not known."""
        if same(self.divisor, extent):
            return replace(self, divisor=1).rounded()
        if same(self.divisor, 1) and isinstance(self.extent, int):
            return _Ratio(extent, self.factor * self.extent).rounded()
        return None


class Ratios:
    """Which tensors of one graph are extents times known factors."""

    def __init__(self) -> None:
        # Object arrays of _Ratio.
        self._known: ByIdentity[Value, Array] = ByIdentity()

    def note(self, node: Node, result: Value) -> None:
        """Keep what is known of the result of a node."""
        ratios = self._computed(node)
        if ratios is not None:
            self._known[result] = ratios

    def integers(self, node: Node) -> Value:
        """The result of a node that casts such a tensor to integers; NotImplemented for any other."""
        from onnx import TensorProto

        dtypes = {TensorProto.INT32: "int32", TensorProto.INT64: "int64"}
        ratios = self._known.get(node.inputs[0]) if node.operator == "Cast" else None
        if ratios is None or node.attributes["to"] not in dtypes:
            return NotImplemented
        rounded = _each(_Ratio.rounded, ratios)
        return NotImplemented if rounded is None else extents(rounded, dtypes[node.attributes["to"]])

    def steps(self, node: Node) -> Value:
        """The result of a Range of floats to a whole one of which extents decide some, as of the positions of
        a text; NotImplemented for any other node.
        """
        if node.operator != "Range" or all(isinstance(value, np.ndarray) for value in node.inputs):
            return NotImplemented
        part = self._part(node)
        start = self._whole(node.input(0)) if part is None else math.floor(node.input(0).item())
        stop, step = (self._whole(node.input(place)) for place in (1, 2))
        if start is None or stop is None or step is None:
            return NotImplemented
        whole = open_range(node.emit, start, stop, step, "int64")
        places = node.emit(node.cast(node.emit(whole, "places"), dtype_of(node.input(0))), "floats")
        return places if part is None else relax.op.add(places, part)

    def _part(self, node: Node) -> Expression | None:
        """By how much each number of an ascending Range is more than an integer, as the centres of pixels
        are; None for others.
        """
        start, step = node.input(0), node.input(2)
        if not all(isinstance(each, np.ndarray) and each.size == 1 for each in (start, step)):
            return None
        part = start.item() % 1
        if not part or not step.item() > 0:
            return None
        return relax.const(np.asarray(part, start.dtype))

    def _whole(self, value: Value) -> Extent | None:
        """The integer that a float is; None where it is none, or not known to be."""
        if isinstance(value, np.ndarray):
            number = float(value.item()) if value.dtype.kind == "f" and value.size == 1 else 0.5
            return int(number) if number.is_integer() else None
        known = self._known.get(value)
        if known is None or known.size != 1 or known.item().factor.denominator != 1:
            return None
        found: Extent | None = known.item().rounded()
        return found

    def with_sizes(self, node: Node) -> Node:
        """A node that resizes, with sizes in place of scales that the sizes of images decide."""
        if node.operator not in ("Resize", "Upsample"):
            return node
        place = 2 if node.operator == "Resize" and node.opset >= 11 else 1
        scales = self._known.get(node.inputs[place]) if node.has(place) else None
        if scales is None:
            return node
        shape = shape_of(node.input(0))
        axes = [node.axis(axis, len(shape)) for axis in node.attributes.get("axes", range(len(shape)))]
        if len(axes) != scales.size:
            raise Unsupported(f"gives {scales.size} scales for axes {axes}")
        pairs = zip(scales.reshape(-1), axes, strict=True)
        sizes = [ratio.size_of(shape[axis]) for ratio, axis in pairs]
        if any(size is None for size in sizes):
            return node
        inputs = node.input(0), node.inputs[1] if place == 2 else None, None, extents(sizes)
        return replace(node, inputs=inputs)

    def _computed(self, node: Node) -> Array | None:
        if node.operator == "Cast" and isinstance(node.input(0), Extents):
            return _each(_Ratio, node.input(0).array) if _is_float(node) else None
        if not any(self._known.get(value) is not None for value in node.inputs):
            return None
        first = self._known.get(node.input(0))
        if node.operator == "Cast":
            return first if _is_float(node) else None
        if first is not None and node.operator in ("Ceil", "Floor"):
            rounded = _each(lambda ratio: ratio.rounded(up=node.operator == "Ceil"), first)
            return None if rounded is None else _each(_Ratio, rounded)
        if node.operator in ("Div", "Mul"):
            left, right = (self._of(node.input(place)) for place in range(2))
            if left is None or right is None:
                return None
            compute = _Ratio.over if node.operator == "Div" else _multiplied
            return _each(compute, *np.broadcast_arrays(left, right))
        if node.operator in ("Add", "Sub"):
            return self._summed(node)
        return self._moved(node)

    def _summed(self, node: Node) -> Array | None:
        """A sum or difference with constants, as of the windows of a signal."""
        left, right = (node.input(place) for place in range(2))
        if node.operator == "Add" and isinstance(left, np.ndarray):
            left, right = right, left
        known = self._known.get(left)
        if known is None or not isinstance(right, np.ndarray) or not np.isfinite(right).all():
            return None
        sign = 1 if node.operator == "Add" else -1
        pairs = np.broadcast_arrays(known, right)
        return _each(lambda ratio, number: ratio.plus(sign * Fraction(float(number))), *pairs)

    def _moved(self, node: Node) -> Array | None:
        move = MOVES.get(node.operator)
        if move is None:
            return None
        joined = len(node.inputs) if node.operator == "Concat" else 1
        data = [self._of(value) for value in node.inputs[:joined]]
        others = node.inputs[joined:]
        if any(each is None for each in data) or not all(
            value is None or isinstance(value, np.ndarray) for value in others
        ):
            return None
        moved = move(node, *data, *(None if value is None else elements_of(value) for value in others))
        return moved if isinstance(moved, np.ndarray) else None

    def _of(self, value: Value) -> Array | None:
        """What a tensor is: known, or constants above zero of which each is a factor; None for others."""
        known = self._known.get(value)
        if known is not None or not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return known
        return _each(lambda number: _Ratio(1).times(Fraction(float(number))) if number > 0 else None, value)


def _multiplied(left: _Ratio, right: _Ratio) -> _Ratio | None:
    """A product of which one is a number."""
    for ratio, number in ((left, right), (right, left)):
        if same(number.extent, 1) and same(number.divisor, 1):
            return ratio.times(number.factor)
    return None


def _each(compute: Callable[..., Any], *arrays: Array) -> Array | None:
    """What ``compute`` gives for the elements of arrays of one shape; None where it gives None for any."""
    result = np.empty(arrays[0].shape, dtype=object)
    for index in np.ndindex(arrays[0].shape):
        result[index] = compute(*(array[index] for array in arrays))
        if result[index] is None:
            return None
    return result


def _is_float(node: Node) -> bool:
    from onnx import TensorProto

    return node.attributes["to"] in (TensorProto.FLOAT, TensorProto.DOUBLE)
