"""ONNX operators that work element by element, with broadcasting where they take several tensors."""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax, topi

from relay_layout import activations
from relay_layout.frontend.extents.arithmetic import product
from relay_layout.frontend.onnx.narrow_types import HELD_BY
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.narrow_floats import NARROW, rounded_to
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of

_INTEGERS = ("int", "uint")


def _unary(operator: Callable[[Any], Any]) -> Converter:
    return lambda node: operator(node.tensor(0))


def _activation(function: Callable[..., Any], **defaults: float) -> Converter:
    """An activation of the data and of attributes by name, in the order of the function's parameters."""

    def convert(node: Node) -> Value:
        given = (node.attributes.get(name, default) for name, default in defaults.items())
        return function(node.tensor(0), *given)

    return convert


def _binary(operator: Callable[[Any, Any], Any]) -> Converter:
    def convert(node: Node) -> Value:
        return operator(node.tensor(0), _second(node))

    return convert


def _decided(operator: Callable[[Any, Any], Any], deciding: bool) -> Converter:
    """A conjunction or disjunction, which an operand that is ``deciding`` settles."""

    def convert(node: Node) -> Value:
        for known, other in (node.inputs, node.inputs[::-1]):
            if isinstance(known, np.ndarray) and known.size == 1 and known.ndim <= len(shape_of(other)):
                if bool(known.item()) != deciding:
                    return other
                if product(shape_of(other)) == 1:
                    return np.full(shape_of(other), deciding)
        return operator(node.tensor(0), _second(node))

    return convert


def _second(node: Node) -> Any:
    # Before opset 7 the second operand was lined up with an axis of the first one.
    if node.opset < 7 and node.attributes.get("broadcast", 0) and "axis" in node.attributes:
        rank, shape = len(shape_of(node.input(0))), shape_of(node.input(1))
        trailing = rank - node.axis(node.attributes["axis"], rank) - len(shape)
        return node.expression(node.reshaped(node.input(1), [*shape, *[1] * max(trailing, 0)]))
    return node.tensor(1)


def _variadic(operator: Callable[[Any, Any], Any]) -> Converter:
    def convert(node: Node) -> Value:
        tensors = [node.tensor(index) for index in range(len(node.inputs))]
        return reduce(lambda total, tensor: node.emit(operator(total, tensor), "chain"), tensors)

    return convert


def _mean(node: Node) -> Value:
    total = _variadic(relax.op.add)(node)
    return relax.op.multiply(total, node.like(1 / len(node.inputs), total))


def _is_integer(value: Value) -> bool:
    return dtype_of(value).startswith(_INTEGERS)


def _power(node: Node) -> Value:
    dtype = dtype_of(node.input(0))
    given = node.input(1)
    if isinstance(given, np.ndarray) and given.ndim == 0 and given in (1, 2, 3, 4):
        # A product is exact, and TVM warns of every other whole exponent.
        base = node.tensor(0)
        return reduce(relax.op.multiply, [base] * int(given))
    # The power of integers is computed in floating point, as ONNX Runtime does.
    computed = "float64" if _is_integer(node.input(0)) else dtype
    exponent = _second(node) if dtype_of(node.input(1)) == computed else node.cast(node.input(1), computed)
    result = relax.op.power(node.cast(node.input(0), computed), exponent)
    return result if computed == dtype else relax.op.astype(result, dtype)


def _modulo(node: Node) -> Value:
    operator = relax.op.mod if node.attributes.get("fmod", 0) else relax.op.floor_mod
    return operator(node.tensor(0), node.tensor(1))


def _clip(node: Node) -> Value:
    data = node.tensor(0)
    if node.opset < 11:
        low, high = node.attributes.get("min"), node.attributes.get("max")
    else:
        low, high = (node.optional(index) for index in (1, 2))
    if not all(bound is None or isinstance(bound, float | np.ndarray) for bound in (low, high)):
        if low is not None:
            data = relax.op.maximum(data, node.expression(low))
        return data if high is None else relax.op.minimum(data, node.expression(high))
    lowest, highest = _bound(low, data), _bound(high, data)
    if lowest is None and highest is None:
        return data
    if highest is None:
        return relax.op.nn.relu(data) if lowest == 0 else relax.op.maximum(data, node.like(lowest, data))
    if lowest is None:
        return relax.op.minimum(data, node.like(highest, data))
    # ONNX gives the maximum where the bounds cross, relax.clip the minimum.
    return relax.op.clip(data, min(lowest, highest), highest)


def _bound(bound: Any, data: Any) -> Any:
    """A bound as a Python number, None where it does not bound."""
    if bound is None:
        return None
    number = np.asarray(bound, dtype=dtype_of(data)).reshape(-1)[0].item()
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _cast_to(node: Node, dtype: str) -> Value:
    data = node.tensor(0)
    if node.element_type(0) == dtype or dtype_of(data) == dtype:
        return data
    if dtype == "bool":
        return relax.op.not_equal(data, node.like(0, data))
    if dtype in NARROW:
        return node.held(rounded_to(node, node.emit(node.cast(data, "float32"), "wide"), dtype), dtype)
    if dtype in HELD_BY:
        return node.held(_wrapped(node, data, dtype), dtype)
    if dtype.startswith("float8"):
        raise Unsupported(f"casts to {dtype}, which is not supported; {', '.join(NARROW)} are")
    return relax.op.astype(data, dtype)


def _bit_shift(node: Node) -> Value:
    """Bits moved to either side; beyond the width of the elements nothing but the sign is left of them."""
    direction = node.attributes["direction"]
    operator = relax.op.left_shift if direction == "LEFT" else relax.op.right_shift
    data, given = node.tensor(0), node.input(1)
    dtype = np.dtype(dtype_of(data))
    bits = 8 * dtype.itemsize
    if isinstance(given, np.ndarray) and ((given >= 0) & (given < bits)).all():
        return operator(data, node.expression(given))
    amount = node.expression(given)
    above = node.emit(relax.op.less(amount, node.like(bits, data)), "above")
    below = node.emit(relax.op.greater_equal(amount, node.like(0, data)), "below")
    inside = node.emit(relax.op.logical_and(above, below), "inside")
    held = node.emit(relax.op.where(inside, amount, node.like(bits - 1, data)), "held")
    moved = operator(data, held)
    if direction == "RIGHT" and dtype.kind == "i":
        return moved
    return relax.op.where(inside, node.emit(moved, "moved"), node.like(0, data))


def _wrapped(node: Node, data: Any, dtype: str) -> Any:
    """Integers of less than a byte in bytes: of others the last bits."""
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    whole = node.emit(node.cast(data, "int32"), "whole")
    last = node.emit(relax.op.bitwise_and(whole, relax.const(2**bits - 1, "int32")), "last")
    if not dtype.startswith("u"):
        # The first of these bits is the sign.
        sign = relax.const(2 ** (bits - 1), "int32")
        turned = node.emit(relax.op.bitwise_xor(last, sign), "turned")
        last = node.emit(relax.op.subtract(turned, sign), "last")
    return relax.op.astype(last, HELD_BY[dtype])


def _cast(node: Node) -> Value:
    from onnx import TensorProto
    from onnx.helper import tensor_dtype_to_np_dtype

    # Opset 5 and older have the name of an element type.
    code = dict(TensorProto.DataType.items()).get(node.attributes["to"], node.attributes["to"])
    if code not in TensorProto.DataType.values()[1:]:
        raise Unsupported(f"casts to the unknown element type {code}")
    dtype = np.dtype(tensor_dtype_to_np_dtype(code))
    if dtype.kind in "OSUc":
        raise Unsupported(
            "casts to strings or complex numbers, which is not supported: "
            "leave that to what reads the model's outputs"
        )
    return _cast_to(node, str(dtype))


def _cast_like(node: Node) -> Value:
    value, dtype = node.input(0), node.element_type(1)
    is_narrow = dtype in NARROW or dtype in HELD_BY
    return value.astype(dtype) if isinstance(value, np.ndarray) and not is_narrow else _cast_to(node, dtype)


def _bit_cast(node: Node) -> Value:
    given, dtype = node.element_type(0), node.dtype_given("to", "")
    unsupported = {given, dtype} & {*NARROW, *HELD_BY, "float8_e8m0fnu", "complex64", "complex128"}
    if unsupported or not dtype or np.dtype(given).itemsize != np.dtype(dtype).itemsize:
        raise Unsupported(
            f"reads the bits of {given} as {dtype or 'nothing'}, which is not supported: "
            "types of as many whole bytes are"
        )
    # A truth value is a byte of 0 or 1.
    data = node.emit(node.cast(node.input(0), "uint8"), "byte") if given == "bool" else node.tensor(0)
    bits = node.builder.call_te(topi.reinterpret, data, "uint8" if dtype == "bool" else dtype)
    return relax.op.astype(node.emit(bits, "bits"), "bool") if dtype == "bool" else bits


def _where(node: Node) -> Value:
    return relax.op.where(node.tensor(0), node.tensor(1), node.tensor(2))


def _is_infinite(node: Node) -> Value:
    data = node.tensor(0)
    negative, positive = (node.attributes.get(f"detect_{sign}", 1) for sign in ("negative", "positive"))
    if negative and positive:
        return relax.op.isinf(data)
    return relax.op.equal(data, node.like(math.inf if positive else -math.inf, data))


def _celu(node: Node) -> Value:
    alpha = node.attributes.get("alpha", 1.0)
    return activations.exponential(node.tensor(0), alpha, 1 / alpha)


def _selu(node: Node) -> Value:
    gamma = node.attributes.get("gamma", 1.05070102214813232421875)
    alpha = node.attributes.get("alpha", 1.67326319217681884765625)
    data = node.tensor(0)
    return relax.op.multiply(activations.exponential(data, alpha), node.like(gamma, data))


def _shrink(node: Node) -> Value:
    data = node.tensor(0)
    threshold, bias = node.attributes.get("lambd", 0.5), node.attributes.get("bias", 0.0)
    shifted = [
        node.emit(operator(data, node.like(bias, data)), "shifted")
        for operator in (relax.op.subtract, relax.op.add)
    ]
    below = relax.op.where(relax.op.less(data, node.like(-threshold, data)), shifted[1], node.like(0, data))
    return relax.op.where(
        relax.op.greater(data, node.like(threshold, data)), shifted[0], node.emit(below, "below")
    )


def _reciprocal(node: Node) -> Value:
    data = node.tensor(0)
    return relax.op.divide(node.like(1.0, data), data)


def _mish(node: Node) -> Value:
    data = node.tensor(0)
    return relax.op.multiply(data, relax.op.tanh(node.emit(activations.softplus(data), "softplus")))


def _swish(node: Node) -> Value:
    data, alpha = node.tensor(0), node.attributes.get("alpha", 1.0)
    if alpha == 1.0:
        return relax.op.nn.silu(data)
    return relax.op.multiply(data, relax.op.sigmoid(relax.op.multiply(data, node.like(alpha, data))))


def _gelu(node: Node) -> Value:
    tanh = node.attributes.get("approximate", "none") == "tanh"
    return relax.op.nn.gelu_tanh(node.tensor(0)) if tanh else relax.op.nn.gelu(node.tensor(0))


def _hard_swish(node: Node) -> Value:
    data = node.tensor(0)
    gate = node.emit(activations.hard_sigmoid(data, 1 / 6, 0.5), "gate")
    return relax.op.multiply(data, gate)


def _parametric_relu(node: Node) -> Value:
    data, slope = node.tensor(0), node.input(1)
    shape, slopes = shape_of(data), shape_of(slope)
    if isinstance(slope, np.ndarray) and slope.size == 1 and np.isfinite(slope).all():
        return relax.op.nn.leakyrelu(data, float(slope.reshape(-1)[0]))
    # Slopes line up with the last dimensions, but opset 6 and older gave one slope per channel.
    if node.opset < 7 and len(slopes) == 1 and len(shape) > 1:
        slopes = [*slopes, *[1] * (len(shape) - 2)]
        slope = node.reshaped(slope, slopes)
    axes = [axis for axis, extent in enumerate(slopes) if extent != 1]
    place = len(shape) - len(slopes) + axes[0] if len(axes) == 1 else -1
    # TVM's operator takes no bfloat16.
    if 0 <= place < len(shape) and isinstance(shape[place], int) and dtype_of(data) != "bfloat16":
        flat = node.reshaped(slope, [slopes[axes[0]]])
        return relax.op.nn.prelu(data, node.expression(flat), place)
    scaled = node.emit(relax.op.multiply(data, node.expression(slope)), "scaled")
    return relax.op.where(relax.op.less(data, node.like(0, data)), scaled, data)


CONVERTERS: dict[str, Converter] = {
    "Abs": _unary(relax.op.abs),
    "Acos": _unary(relax.op.acos),
    "Acosh": _unary(relax.op.acosh),
    "Add": _binary(relax.op.add),
    "And": _decided(relax.op.logical_and, False),
    "Asin": _unary(relax.op.asin),
    "Asinh": _unary(relax.op.asinh),
    "Atan": _unary(relax.op.atan),
    "Atanh": _unary(relax.op.atanh),
    "BitCast": _bit_cast,
    "BitShift": _bit_shift,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Ceil": _unary(relax.op.ceil),
    "Celu": _celu,
    "Clip": _clip,
    "Cos": _unary(relax.op.cos),
    "Cosh": _unary(relax.op.cosh),
    "Div": _binary(relax.op.divide),
    "Elu": _activation(activations.exponential, alpha=1.0),
    "Equal": _binary(relax.op.equal),
    "Erf": _unary(relax.op.erf),
    "Exp": _unary(relax.op.exp),
    "Floor": _unary(relax.op.floor),
    "Gelu": _gelu,
    "Greater": _binary(relax.op.greater),
    "GreaterOrEqual": _binary(relax.op.greater_equal),
    "HardSigmoid": _activation(activations.hard_sigmoid, alpha=0.2, beta=0.5),
    "HardSwish": _hard_swish,
    "IsInf": _is_infinite,
    "IsNaN": _unary(relax.op.isnan),
    "LeakyRelu": _activation(relax.op.nn.leakyrelu, alpha=0.01),
    "Less": _binary(relax.op.less),
    "LessOrEqual": _binary(relax.op.less_equal),
    "Log": _unary(relax.op.log),
    "Max": _variadic(relax.op.maximum),
    "Mean": _mean,
    "Min": _variadic(relax.op.minimum),
    "Mish": _mish,
    "Mod": _modulo,
    "Mul": _binary(relax.op.multiply),
    "Neg": _unary(relax.op.negative),
    "Not": _unary(relax.op.logical_not),
    "Or": _decided(relax.op.logical_or, True),
    "PRelu": _parametric_relu,
    "Pow": _power,
    "Reciprocal": _reciprocal,
    "Relu": _unary(relax.op.nn.relu),
    "Round": _unary(relax.op.round),
    "Selu": _selu,
    "Shrink": _shrink,
    "Sigmoid": _unary(relax.op.sigmoid),
    "Sign": _unary(relax.op.sign),
    "Sin": _unary(relax.op.sin),
    "Sinh": _unary(relax.op.sinh),
    "Softplus": _unary(activations.softplus),
    "Softsign": _unary(activations.softsign),
    "Sqrt": _unary(relax.op.sqrt),
    "Sub": _binary(relax.op.subtract),
    "Sum": _variadic(relax.op.add),
    "Swish": _swish,
    "Tan": _unary(relax.op.tan),
    "Tanh": _unary(relax.op.tanh),
    "ThresholdedRelu": _activation(activations.thresholded_relu, alpha=1.0),
    "Where": _where,
    "Xor": _binary(relax.op.logical_xor),
}
