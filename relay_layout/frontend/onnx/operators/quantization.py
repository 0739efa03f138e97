"""ONNX operators of quantized tensors: quantize, dequantize, and operators between the two."""

from dataclasses import replace

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.narrow_types import HELD_BY
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import block_quantization, linear
from relay_layout.frontend.onnx.operators.narrow_floats import NARROW, rounded_to
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of

_QUANTIZED = ("int8", "uint8", "int16", "uint16")
_DEQUANTIZED = (*_QUANTIZED, "int32")
_REALS = ("float32", "float16", "bfloat16")


def _quantize(node: Node) -> Value:
    dtype = node.element_type(2) if node.has(2) else node.dtype_given("output_dtype", "uint8")
    if dtype not in (*_QUANTIZED, *HELD_BY, *NARROW):
        supported = ", ".join((*_QUANTIZED, *HELD_BY))
        raise Unsupported(f"quantizes to {dtype}, which is not supported; {supported} are")
    data, scale, size = node.input(0), node.input(1), _block_size(node)
    point = _held(zero_point(node, 2, dtype))
    if dtype in NARROW:
        # ONNX has no zero points of floats other than zero.
        steps = block_quantization.spread(node, _single(node, scale), shape_of(data), _axis(node), size)
        quotient = relax.op.divide(node.expression(_single(node, data)), node.expression(steps))
        return node.held(rounded_to(node, node.emit(quotient, "quotient"), dtype), dtype)
    if not size:
        return _within(node, quantized(node, data, scale, point, _axis(node)), dtype)
    shape = shape_of(data)
    parts = (block_quantization.spread(node, value, shape, _axis(node), size) for value in (scale, point))
    return _within(node, block_quantization.integers(node, _single(node, data), *parts), dtype)


def _dequantize(node: Node) -> Value:
    data, scale, size = _held(node.input(0)), node.input(1), _block_size(node)
    point = _held(zero_point(node, 2, dtype_of(data)))
    result = node.dtype_given("output_dtype", dtype_of(scale))
    # Of floats only narrow ones are dequantized; where they were computed, float32 holds them.
    is_narrow = dtype_of(data) == "float32" or (
        dtype_of(data).startswith("float") and isinstance(data, np.ndarray)
    )
    if not size and not is_narrow:
        return dequantized(node, data, scale, point, _axis(node), result)
    if not is_narrow:
        _check_dtypes(data, scale, result)
    shape = shape_of(data)
    parts = (block_quantization.spread(node, value, shape, _axis(node), size) for value in (scale, point))
    return _rounded(node, block_quantization.numbers(node, data, *parts), result)


def _held(value: Value) -> Value:
    """Constant integers of less than a byte in bytes; other values as they are."""
    holder = HELD_BY.get(dtype_of(value))
    return value.astype(holder) if holder and isinstance(value, np.ndarray) else value


def _within(node: Node, integers: Value, dtype: str) -> Value:
    """Integers in bytes as those of ``dtype``, which has fewer: the nearest that it has."""
    if dtype not in HELD_BY:
        return integers
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    least = 0 if dtype.startswith("u") else -(2 ** (bits - 1))
    nearest = relax.op.clip(node.emit(node.expression(integers), "bytes"), least, least + 2**bits - 1)
    return node.held(nearest, dtype)


def _block_size(node: Node) -> int:
    return int(node.attributes.get("block_size", 0))


def _axis(node: Node) -> int:
    return int(node.attributes.get("axis", 1))


def zero_point(node: Node, index: int, dtype: str) -> Value:
    """An input that is a zero point, zero where it is left out."""
    return node.input(index) if node.has(index) else np.zeros((), dtype)


def quantized(node: Node, data: Value, scale: Value, zero_point: Value, axis: int = 1) -> Value:
    """The integers for a tensor of floats, of the element type of ``zero_point``."""
    arguments = _vector(node, _single(node, scale)), _vector(node, zero_point)
    axis = _checked_axis(node, data, scale, axis)
    real = node.expression(_single(node, data))
    return relax.op.quantize(real, *arguments, axis, dtype_of(zero_point))


def _single(node: Node, value: Value) -> Value:
    """Floats in float32, in which integers are computed from them and numbers from integers."""
    if dtype_of(value) not in _REALS:
        raise Unsupported(f"quantizes {dtype_of(value)}, which is not supported; {', '.join(_REALS)} are")
    if isinstance(value, np.ndarray):
        return value.astype("float32", copy=False)
    wide = node.cast(value, "float32")
    return wide if wide is value else node.emit(wide, "wide")


def _rounded(node: Node, numbers: Value, dtype: str) -> Value:
    """float32 numbers in the element type of a result."""
    if isinstance(numbers, np.ndarray):
        return numbers.astype(dtype, copy=False)
    return numbers if dtype == "float32" else relax.op.astype(node.emit(numbers, "numbers"), dtype)


def dequantized(
    node: Node, data: Value, scale: Value, zero_point: Value, axis: int = 1, dtype: str = "float32"
) -> Value:
    """The numbers that integers stand for, computed in float32."""
    _check_dtypes(data, scale, dtype)
    if dtype_of(data) == "int32" and not (isinstance(zero_point, np.ndarray) and not zero_point.any()):
        raise Unsupported("dequantizes int32 with a zero point, which ONNX does not allow")
    arguments = _vector(node, _single(node, scale)), _vector(node, zero_point)
    axis = _checked_axis(node, data, scale, axis)
    return _rounded(node, relax.op.dequantize(node.expression(data), *arguments, axis, "float32"), dtype)


def _check_dtypes(data: Value, scale: Value, result: str) -> None:
    if dtype_of(data) not in _DEQUANTIZED or dtype_of(scale) not in _REALS or result not in _REALS:
        raise Unsupported(
            f"dequantizes {dtype_of(data)} by scales of {dtype_of(scale)} to {result}, which is not "
            "supported: "
            f"{', '.join(_DEQUANTIZED)} are, by and to {', '.join(_REALS)}"
        )


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
