"""ONNX operators of tensors that are quantized at run time, by scales that the data give."""

from dataclasses import replace

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import product
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import linear
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of, written
from relay_layout.quantization.run_time import (
    Bytes,
    bytes_of,
    convolved_at_run_time,
    multiplied_at_run_time,
    multiplied_bytes,
)
from relay_layout.quantization.weights import centred_weight

_LARGEST = 255.0


def _dynamic_quantize(node: Node) -> Value:
    """uint8 over the range of the data and zero, its scale and its zero point."""
    data = node.tensor(0)
    if dtype_of(data) != "float32":
        raise Unsupported(f"quantizes {dtype_of(data)}, which is not supported; float32 is")
    zero, one, top = (relax.const(number, "float32") for number in (0.0, 1.0, _LARGEST))
    least = node.emit(relax.op.min(data), "least")
    low = node.emit(relax.op.minimum(least, zero), "low")
    high = node.emit(relax.op.maximum(node.emit(relax.op.max(data), "high"), zero), "high")
    steps = node.emit(relax.op.divide(node.emit(relax.op.subtract(high, low), "range"), top), "steps")
    # Of zeros alone, as ONNX Runtime has it.
    scale = node.emit(relax.op.where(node.emit(relax.op.equal(high, low), "flat"), one, steps), "scale")
    # Of the least element again: what two functions read would be one of its own.
    negated = node.emit(relax.op.maximum(node.emit(relax.op.negative(least), "below"), zero), "negated")
    point = node.emit(relax.op.divide(negated, scale), "point")
    point = node.emit(relax.op.round(node.emit(relax.op.clip(point, 0.0, _LARGEST), "held")), "point")
    divided = node.emit(relax.op.round(node.emit(relax.op.divide(data, scale), "divided")), "rounded")
    moved = node.emit(relax.op.clip(node.emit(relax.op.add(divided, point), "moved"), 0.0, _LARGEST), "held")
    return [relax.op.astype(moved, "uint8"), scale, relax.op.astype(point, "uint8")]


def _matrix_product(node: Node) -> Value:
    left, right = node.input(0), node.input(1)
    points = [node.optional(index) for index in (2, 3)]
    if (
        isinstance(right, np.ndarray)
        and right.ndim == 2
        and len(shape_of(left)) > 1
        and (points[0] is None or product(shape_of(points[0])) == 1)
        and (points[1] is None or (isinstance(points[1], np.ndarray) and points[1].ndim < 2))
    ):
        weight = centred_weight(right, _checked_points(points[1], right, 1), 1)
        return multiplied_at_run_time(_bytes(node, left, points[0]), weight, node.emit)
    rows = points[0] is not None and len(shape_of(points[0])) == 1 and len(shape_of(left)) > 1
    if rows:
        column = node.reshaped(points[0], [*shape_of(points[0]), 1])
        points[0] = node.emit(node.expression(column), "column")
    if min(len(shape_of(left)), len(shape_of(right))) > 1 and isinstance(shape_of(left)[-1], int):
        first, second = (
            bytes_of(node.expression(side), None if point is None else node.expression(point), node.emit)
            for side, point in zip((left, right), points, strict=True)
        )
        return multiplied_bytes(first, second, node.emit)
    operands = [_less(node, left, points[0]), _less(node, right, points[1])]
    return relax.op.matmul(*operands, out_dtype="int32")


def product_to_real(node: Node) -> Value:
    """A product of bytes, times its scales, and with its bias, as MatMulIntegerToFloat of com.microsoft.

    The node's inputs are the operands, their scales, their zero points and the bias.
    """
    inner = replace(node, inputs=(node.input(0), node.input(1), node.optional(4), node.optional(5)))
    total = node.emit(_matrix_product(inner), "integers")
    scale = node.emit(relax.op.multiply(node.tensor(2), node.tensor(3)), "scale")
    total = node.emit(relax.op.astype(total, "float32"), "total")
    result = relax.op.multiply(total, scale)
    return relax.op.add(node.emit(result, "scaled"), node.tensor(6)) if node.has(6) else result


def _convolution(node: Node) -> Value:
    data, weight = node.input(0), node.constant(1)
    points = _checked_points(node.constant(3) if node.has(3) else None, weight, 0)
    if len(shape_of(data)) == 4:
        call = linear.CONVERTERS["Conv"](replace(node, inputs=(data, weight)))
        given, centred = _bytes(node, data, node.optional(2)), centred_weight(weight, points, 0)
        return convolved_at_run_time(call, given, centred, node.emit)
    # Exact below 2**24.
    real = node.emit(node.cast(node.emit(_less(node, data, node.optional(2)), "centred"), "float32"), "real")
    along = (-1, *[1] * (weight.ndim - 1)) if points.ndim else ()
    numbers = weight.astype("float32") - points.reshape(along).astype("float32")
    total = node.emit(linear.CONVERTERS["Conv"](replace(node, inputs=(real, numbers))), "total")
    return relax.op.astype(node.emit(relax.op.round(total), "rounded"), "int32")


def _checked_points(given: Array | None, weight: Array, outputs: int) -> Array:
    """The zero points of a weight: a scalar, or a vector along the axis ``outputs``."""
    if given is None:
        return np.zeros((), "int32")
    if given.size == 1:
        return given.reshape(())
    if given.shape != (weight.shape[outputs],):
        raise Unsupported(
            f"has {given.size} zero points for a weight of {written(list(weight.shape))}, "
            "whose outputs should have one each"
        )
    return given


def _bytes(node: Node, data: Value, zero_point: Value | None) -> Bytes:
    point = None if zero_point is None else node.expression(node.reshaped(zero_point, []))
    return bytes_of(node.expression(data), point, node.emit)


def _less(node: Node, value: Value, zero_point: Value | None) -> Value:
    """Bytes less their zero point, as int32."""
    wide = node.cast(value, "int32")
    if zero_point is None:
        return wide
    return relax.op.subtract(node.emit(wide, "wide"), node.emit(node.cast(zero_point, "int32"), "point"))


CONVERTERS: dict[str, Converter] = {
    "ConvInteger": _convolution,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _matrix_product,
}
