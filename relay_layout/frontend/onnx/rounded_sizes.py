"""Sizes that a graph computes in floating point of the sizes of its inputs, and then rounds.

Detectors scale images to a side of some length. What :mod:`.ratios` knows no integers for is computed at run
time, from a few numbers, and is an extent then.
"""

from math import prod

import numpy as np
from tvm import relax

from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.onnx.arithmetic import MOVES
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.values import Extents, Value, dtype_of, extents, shape_of
from relay_layout.ir import is_static

_MOST = 8
"""Elements of a tensor of sizes: no tensor has more dimensions."""

_COMPUTE = frozenset(MOVES) | {
    *("Abs", "Add", "Cast", "Ceil", "Clip", "Div", "Floor", "Max", "Min", "Mul", "Neg", "Pow"),
    *("Reciprocal", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Round", "Sqrt", "Sub"),
}


class RoundedSizes:
    """Which tensors of one graph are floats that the sizes of its inputs alone decide."""

    def __init__(self) -> None:
        self._known: ByIdentity[Value, bool] = ByIdentity()

    def note(self, node: Node, result: Value) -> None:
        """Keep what is known of the result of a node."""
        if node.operator not in _COMPUTE or not isinstance(result, relax.Var):
            return
        if any(not self._is_of_sizes(value) for value in node.inputs) or not _is_float(result):
            return
        if any(not isinstance(value, np.ndarray) for value in node.inputs if value is not None):
            self._known[result] = True

    def integers(self, node: Node) -> Value:
        """The result of a node that casts such a tensor to integers; NotImplemented for any other."""
        from onnx import TensorProto

        dtypes = {TensorProto.INT32: "int32", TensorProto.INT64: "int64"}
        if node.operator != "Cast" or node.attributes["to"] not in dtypes:
            return NotImplemented
        floats = node.inputs[0]
        if self._known.get(floats) is None:
            return NotImplemented
        shape = [int(extent) for extent in shape_of(floats)]
        flat = node.expression(node.reshaped(floats, [prod(shape)]))
        whole = node.emit(relax.op.astype(node.emit(flat, "flat"), "int64"), "whole")
        sizes = np.empty(prod(shape), dtype=object)
        for place in range(sizes.size):
            size = relax.op.strided_slice(whole, [0], [place], [place + 1], assume_inbound=True)
            sizes[place] = node.count(node.emit(size, "size"), None)
        return extents(sizes.reshape(shape), dtypes[node.attributes["to"]])

    def _is_of_sizes(self, value: Value) -> bool:
        if value is None or isinstance(value, np.ndarray | Extents):
            return True
        return self._known.get(value) is not None


def _is_float(value: Value) -> bool:
    """Whether it is a tensor of floats, of few and known elements."""
    shape = getattr(getattr(value, "ty", None), "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not dtype_of(value).startswith("float"):
        return False
    sizes = shape_of(value)
    return is_static(sizes) and 0 < prod(map(int, sizes)) <= _MOST
