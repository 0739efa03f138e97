"""Extents in floating point, where exporters divide them before they are rounded up or down."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from relay_layout.frontend.extent_arithmetic import simplify
from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.values import Array, Extents, Value, extents

_LARGEST = 2**12
"""What both parts of a factor are at most: then no rounding of floats takes an extent past an integer."""


@dataclass(frozen=True)
class _Ratio:
    """Floats that are ``extents``, an object array, times ``factor``."""

    extents: Array
    factor: Fraction = Fraction(1)

    def rounded(self, *, up: bool = False) -> Array:
        """Extents next to them."""
        more = self.factor.denominator - 1 if up else 0
        result = np.empty(self.extents.shape, dtype=object)
        for index, extent in np.ndenumerate(self.extents):
            result[index] = simplify((extent * self.factor.numerator + more) // self.factor.denominator)
        return result


class Ratios:
    """Which tensors of one graph are extents times a known factor."""

    def __init__(self) -> None:
        self._known: ByIdentity[Value, _Ratio] = ByIdentity()

    def note(self, node: Node, result: Value) -> None:
        """Keep what is known of the result of a node."""
        ratio = self._computed(node)
        if ratio is not None:
            self._known[result] = ratio

    def integers(self, node: Node) -> Value:
        """The result of a node that casts such a tensor to integers; NotImplemented for any other."""
        from onnx import TensorProto

        dtypes = {TensorProto.INT32: "int32", TensorProto.INT64: "int64"}
        ratio = self._known.get(node.inputs[0]) if node.operator == "Cast" else None
        if ratio is None or node.attributes["to"] not in dtypes:
            return NotImplemented
        return extents(ratio.rounded(), dtypes[node.attributes["to"]])

    def _computed(self, node: Node) -> _Ratio | None:
        if node.operator not in ("Cast", "Ceil", "Div", "Floor", "Mul"):
            return None
        data = node.input(0)
        if node.operator == "Cast":
            return _Ratio(data.array) if isinstance(data, Extents) and _is_float(node) else None
        ratio = self._known.get(data)
        if ratio is None:
            return None
        if node.operator in ("Ceil", "Floor"):
            return _Ratio(ratio.rounded(up=node.operator == "Ceil"))
        number = node.input(1)
        if not isinstance(number, np.ndarray) or number.size != 1 or not 0 < number.item() <= _LARGEST:
            return None
        by = Fraction(number.item())
        factor = ratio.factor * (by if node.operator == "Mul" else 1 / by)
        return _Ratio(ratio.extents, factor) if max(factor.as_integer_ratio()) <= _LARGEST else None


def _is_float(node: Node) -> bool:
    from onnx import TensorProto

    return node.attributes["to"] in (TensorProto.FLOAT, TensorProto.DOUBLE)


__all__ = ["Ratios"]
