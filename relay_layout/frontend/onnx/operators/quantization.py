"""ONNX operators of quantized tensors: quantize, dequantize, and operators between the two."""

from dataclasses import replace

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import linear
from relay_layout.frontend.onnx.values import Unsupported, Value, dtype_of, shape_of

_QUANTIZED = ("int8", "uint8", "int16", "uint16")
_DEQUANTIZED = (*_QUANTIZED, "int32")


def _quantize(node: Node) -> Value:
    _check_whole(node)
    dtype = dtype_of(node.input(2)) if node.has(2) else "uint8"
    if dtype not in _QUANTIZED:
        raise Unsupported(f"quantizes to {dtype}, which is not supported; {', '.join(_QUANTIZED)} are")
    return quantized(node, node.input(0), node.input(1), zero_point(node, 2, dtype), _axis(node))


def _dequantize(node: Node) -> Value:
    _check_whole(node)
    dtype = dtype_of(node.input(0))
    return dequantized(node, node.input(0), node.input(1), zero_point(node, 2, dtype), _axis(node))


def _check_whole(node: Node) -> None:
    if node.attributes.get("block_size", 0):
        raise Unsupported(f"has block_size={node.attributes['block_size']}, which is not supported")
    if node.attributes.get("output_dtype", 0):
        raise Unsupported("has output_dtype, which is not supported; its zero point gives the type")


def _axis(node: Node) -> int:
    return int(node.attributes.get("axis", 1))


def zero_point(node: Node, index: int, dtype: str) -> Value:
    """An input that is a zero point, zero where it is left out."""
    return node.input(index) if node.has(index) else np.zeros((), dtype)


def quantized(node: Node, data: Value, scale: Value, zero_point: Value, axis: int = 1) -> Value:
    """The integers for a float32 tensor, of the element type of ``zero_point``."""
    if dtype_of(data) != "float32":
        raise Unsupported(f"quantizes {dtype_of(data)}, which is not supported; float32 is")
    arguments = _vector(node, scale), _vector(node, zero_point)
    axis = _checked_axis(node, data, scale, axis)
    return relax.op.quantize(node.expression(data), *arguments, axis, dtype_of(zero_point))


def dequantized(node: Node, data: Value, scale: Value, zero_point: Value, axis: int = 1) -> Value:
    """The float32 numbers that integers stand for."""
    if dtype_of(data) not in _DEQUANTIZED or dtype_of(scale) != "float32":
        raise Unsupported(f"dequantizes {dtype_of(data)} to {dtype_of(scale)}, which is not supported")
    if dtype_of(data) == "int32" and not (isinstance(zero_point, np.ndarray) and not zero_point.any()):
        raise Unsupported("dequantizes int32 with a zero point, which ONNX does not allow")
    arguments = _vector(node, scale), _vector(node, zero_point)
    axis = _checked_axis(node, data, scale, axis)
    return relax.op.dequantize(node.expression(data), *arguments, axis, "float32")


def _vector(node: Node, value: Value) -> Value:
    """A scale or zero point as Relax has it: without dimensions where it is one number."""
    shape = shape_of(value)
    return node.expression(node.reshaped(value, []) if shape == [1] else value)


def _checked_axis(node: Node, data: Value, scale: Value, axis: int) -> int:
    """The axis of scales; any where there is only one scale."""
    rank, scales = len(shape_of(data)), shape_of(scale)
    if scales in ([], [1]):
        return 0
    if len(scales) != 1 or shape_of(data)[node.axis(axis, rank)] != scales[0]:
        raise Unsupported(f"has scales of shape {scales} along axis {axis} of {shape_of(data)}")
    return node.axis(axis, rank)


def _convolution(node: Node) -> Value:
    """Between dequantized operands and a quantized result, as the operator is defined."""
    bias = None
    data_scale, weight_scale = node.constant(1), node.constant(4)
    data = node.emit(dequantized(node, node.input(0), data_scale, node.input(2)), "data")
    weight = node.emit(dequantized(node, node.input(3), weight_scale, node.input(5), 0), "weight")
    if node.has(8):
        scale = np.atleast_1d(data_scale * weight_scale)
        scale = scale[0] if scale.size == 1 else scale
        zero = np.zeros(np.shape(scale), "int32")
        bias = node.emit(dequantized(node, node.input(8), np.asarray(scale), zero, 0), "bias")
    inner = replace(node, inputs=(data, weight, bias))
    result = node.emit(linear.CONVERTERS["Conv"](inner), "real")
    return quantized(node, result, node.input(6), node.input(7))


def _matrix_product(node: Node) -> Value:
    """Between dequantized operands and a quantized result, as the operator is defined."""
    operands = []
    for first in (0, 3):
        rank = len(shape_of(node.input(first)))
        # Of the left operand the rows have scales, of the right one the columns.
        axis = rank - 2 if first == 0 else rank - 1
        parts = [node.input(first + place) for place in range(3)]
        value = dequantized(node, parts[0], parts[1], parts[2], max(axis, 0))
        operands.append(node.emit(value, "operand"))
    result = node.emit(relax.op.matmul(*operands), "real")
    return quantized(node, result, node.input(6), node.input(7))


CONVERTERS: dict[str, Converter] = {
    "DequantizeLinear": _dequantize,
    "QLinearConv": _convolution,
    "QLinearMatMul": _matrix_product,
    "QuantizeLinear": _quantize,
}
