"""ONNX operators on sequences of tensors, and on optional values.

Nothing of either is left at run time: a sequence is the tensors it holds, and whether an optional value is
there is known while the graph is imported.
"""

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.shapes import joined
from relay_layout.frontend.onnx.operators.slicing import parts
from relay_layout.frontend.values import (
    Array,
    Extents,
    TensorSequence,
    Unsupported,
    Value,
    dtype_of,
    extents,
    shape_of,
    written,
)

_MOST_PARTS = 1024
"""Parts a tensor is split into at most: the time that takes grows with the square of their number."""


def _construct(node: Node) -> Value:
    return _sequence([node.input(index) for index in range(len(node.inputs))], dtype_of(node.input(0)))


def _empty(node: Node) -> Value:
    from onnx import TensorProto, helper

    code = node.attributes.get("dtype", TensorProto.FLOAT)
    known = code in TensorProto.DataType.values() and code != TensorProto.UNDEFINED
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(code)) if known else None
    if dtype is None or dtype.kind in "OSUc":
        raise Unsupported(
            f"makes a sequence of the element type {code}, which is not supported: make one of numbers"
        )
    return TensorSequence((), str(dtype))


def _at(node: Node) -> Value:
    tensors = _given(node).tensors
    return tensors[_position(node, 1, len(tensors), len(tensors) - 1)]


def _insert(node: Node) -> Value:
    given = _given(node)
    tensors = list(given.tensors)
    tensors.insert(_position(node, 2, len(tensors), len(tensors)), node.input(1))
    return _sequence(tensors, given.dtype)


def _erase(node: Node) -> Value:
    given = _given(node)
    tensors = list(given.tensors)
    del tensors[_position(node, 1, len(tensors), len(tensors) - 1)]
    return _sequence(tensors, given.dtype)


def _length(node: Node) -> Value:
    return np.array(len(_given(node).tensors), "int64")


def _given(node: Node) -> TensorSequence:
    """The sequence that is the node's first input."""
    value = node.input(0)
    if not isinstance(value, TensorSequence):
        raise Unsupported("needs a sequence where it is given none")
    return value


def _sequence(tensors: Sequence[Value], dtype: str) -> TensorSequence:
    """Unsupported where ``tensors`` are not tensors of that element type."""
    for tensor in tensors:
        if dtype_of(tensor) != dtype:
            raise Unsupported(f"puts a tensor of {dtype_of(tensor)} into a sequence of {dtype}")
    return TensorSequence(tuple(tensors), dtype)


def _position(node: Node, index: int, length: int, last: int) -> int:
    """The position in the node's input ``index``, which is ``last`` where it is left out, from the front.

    Negative ones count from the end of a sequence of ``length`` tensors.
    """
    position = int(node.constant(index).reshape(-1)[0]) if node.has(index) else last
    if not -length <= position <= last:
        raise Unsupported(f"names position {position} of a sequence of {length} tensors")
    return position + length if position < 0 else position


def _split(node: Node) -> Value:
    value = node.input(0)
    shape = shape_of(value)
    axis = node.axis_given(len(shape), default=0)
    split = node.constant(1) if node.has(1) else np.array(1)
    if split.ndim:
        sizes = [int(size) for size in split.reshape(-1)]
    else:
        size, extent = int(split), shape[axis]
        if not isinstance(extent, int):
            raise Unsupported(
                f"gives as many tensors as the symbolic extent '{extent}' says: "
                "give the model's inputs fixed shapes (--input-shape)"
            )
        if size < 1:
            raise Unsupported(f"splits axis {axis} of {written(shape)} into parts of {size}")
        if extent > size * _MOST_PARTS:
            raise Unsupported(f"splits axis {axis} of {written(shape)} into more than {_MOST_PARTS} tensors")
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    tensors = parts(node, value, sizes, axis)
    # The specification keeps the axis wherever sizes are given. ONNX Runtime drops it for parts of one all
    # the same, which is what PyTorch's exporter means by them.
    if not node.attributes.get("keepdims", 1) and not split.ndim and int(split) == 1:
        tensors = [_without_axis(tensor, axis) for tensor in tensors]
    return TensorSequence(tuple(_taken(node, tensor) for tensor in tensors), dtype_of(value))


def _taken(node: Node, value: Value) -> Value:
    """An expression bound to a variable; other values as they are."""
    bound = isinstance(value, relax.Var) or not isinstance(value, relax.Expr)
    return value if bound else node.emit(value)


def _without_axis(value: Value, axis: int) -> Value:
    if isinstance(value, np.ndarray):
        return value.squeeze(axis)
    if isinstance(value, Extents):
        return extents(value.array.squeeze(axis), value.dtype)
    return relax.op.squeeze(value, [axis])


def _concat(node: Node) -> Value:
    tensors = _given(node).tensors
    if not tensors:
        raise Unsupported("joins the tensors of an empty sequence")
    stacks = bool(node.attributes.get("new_axis", 0))
    axis = node.axis(node.attributes["axis"], len(shape_of(tensors[0])) + stacks)
    if stacks:
        return stacked(node, tensors, axis)
    known = _arrays(tensors)
    return joined(node, tensors, axis) if known is None else _as_known(np.concatenate(known, axis), tensors)


def stacked(node: Node, tensors: Sequence[Value], axis: int) -> Value:
    """One tensor or more, of one shape, along a new ``axis``, which is counted from the front."""
    known = _arrays(tensors)
    if known is not None:
        return _as_known(np.stack(known, axis), tensors)
    return relax.op.stack([node.expression(tensor) for tensor in tensors], axis)


def unstacked(node: Node, value: Value, axis: int) -> list[Value]:
    """The elements of a tensor along ``axis``, whose extent is known, without that axis."""
    extent = shape_of(value)[axis]
    if extent > _MOST_PARTS:
        raise Unsupported(
            f"takes axis {axis} of {written(shape_of(value))} apart into more than {_MOST_PARTS} tensors, "
            "which is not supported: give the axis a smaller extent (--input-shape)"
        )
    cut = [_taken(node, part) for part in parts(node, value, [1] * extent, axis)] if extent else []
    return [_taken(node, _without_axis(part, axis)) for part in cut]


def _arrays(tensors: Sequence[Value]) -> list[Array] | None:
    """The elements of tensors that are all known; None where one is computed at run time."""
    if not all(isinstance(tensor, np.ndarray | Extents) for tensor in tensors):
        return None
    return [tensor.array if isinstance(tensor, Extents) else tensor for tensor in tensors]


def _as_known(elements: Array, tensors: Sequence[Value]) -> Value:
    return extents(elements, dtype_of(tensors[0])) if elements.dtype == object else elements


def _optional(node: Node) -> Value:
    return node.optional(0)


def _element(node: Node) -> Value:
    if not node.has(0):
        raise Unsupported("takes the element of an empty optional")
    return node.input(0)


def _has_element(node: Node) -> Value:
    return np.array(node.has(0))


CONVERTERS: dict[str, Converter] = {
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalGetElement": _element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
