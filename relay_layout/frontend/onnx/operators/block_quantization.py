"""Quantize and dequantize where Relax has no operator of theirs: scales of blocks, and narrow floats.

A block is ``size`` neighbouring elements along an axis, of which the last block may have fewer; a scale
or zero point has the shape of the data, with one element for each block along that axis.
"""

from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Extent


def spread(node: Node, value: Value, shape: list[Extent], axis: int, size: int) -> Value:
    """A scale or zero point of data of ``shape``, in a shape that broadcasts with them.

    ``size`` is 0 where each element of a vector is for one of the data's along ``axis``.
    """
    given = shape_of(value)
    if given in ([], [1]):
        return _reshaped(node, value, [])
    axis = node.axis(axis, len(shape))
    if size:
        return _repeated(node, value, shape, axis, size)
    if len(given) != 1 or given[0] != shape[axis]:
        raise Unsupported(f"has scales of shape {written(given)} along axis {axis} of {written(shape)}")
    return _reshaped(node, value, [given[0] if place == axis else 1 for place in range(len(shape))])


def _reshaped(node: Node, value: Value, shape: list[Extent]) -> Value:
    found = node.reshaped(value, shape)
    return found if isinstance(found, np.ndarray) else node.emit(found, "spread")


def _repeated(node: Node, value: Value, shape: list[Extent], axis: int, size: int) -> Value:
    """As many elements of each block along ``axis`` as the data have."""
    given, extent = shape_of(value), shape[axis]
    if not isinstance(extent, int):
        raise Unsupported(
            f"has blocks along the symbolic extent '{extent}': "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    blocks = -(-extent // size)
    due = [*shape[:axis], blocks, *shape[axis + 1 :]]
    if len(given) != len(due) or not all(map(node.requirements.assume_equal, given, due)):
        raise Unsupported(
            f"has scales of shape {written(given)} where {written(due)} is due for {written(shape)}"
        )
    if isinstance(value, np.ndarray):
        return np.repeat(value, size, axis).take(range(extent), axis)
    repeated = relax.op.repeat(node.expression(value), size, axis)
    if blocks * size == extent:
        return node.emit(repeated, "spread")
    bounds = [relax.prim_value(0)], [relax.prim_value(extent)]
    return node.emit(relax.op.strided_slice(node.emit(repeated, "spread"), [axis], *bounds), "kept")


def numbers(node: Node, data: Value, scale: Value, point: Value) -> Value:
    """The float32 numbers that integers or narrow floats stand for; all three broadcast."""
    if all(isinstance(value, np.ndarray) for value in (data, scale, point)):
        centred: Array = data.astype("float32") - point.astype("float32")
        product: Array = centred * scale.astype("float32")
        return product
    is_centred = isinstance(point, np.ndarray) and not point.any()
    wide, factor = (node.emit(node.cast(value, "float32"), "wide") for value in (data, scale))
    if not is_centred:
        offset = node.emit(node.cast(point, "float32"), "wide")
        wide = node.emit(relax.op.subtract(wide, offset), "centred")
    return relax.op.multiply(wide, factor)


def integers(node: Node, data: Value, scale: Value, point: Value) -> Any:
    """The integers for float32 numbers, of the element type of ``point``; all three broadcast."""
    dtype = dtype_of(point)
    limits = np.iinfo(dtype)
    quotient = node.emit(relax.op.divide(node.expression(data), node.cast(scale, "float32")), "quotient")
    steps = node.emit(relax.op.round(quotient), "steps")
    moved = node.emit(relax.op.add(steps, node.cast(point, "float32")), "moved")
    return relax.op.astype(node.emit(relax.op.clip(moved, int(limits.min), int(limits.max)), "kept"), dtype)
