"""Quantized operators that work element by element, and pooling, concatenation and softmax."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, constant, dtype_of
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.fixed_point import fixed_point_multiply, saturate
from relay_layout.relay.operators.operator import Operator, Scope, rank_of, scalar
from relay_layout.relay.operators.pooling import build_pool
from relay_layout.relay.operators.quantization import (
    EIGHT_BITS,
    channel_axis,
    channelwise,
    check_divisor,
    check_dtype,
    check_scale,
    check_zero_point,
    dequantize,
    fields,
    is_zero,
    known,
    known_number,
    quantize,
    requantize,
    requantize_or_widen,
)

_NUMBERS = ("input_scale", "input_zero_point", "output_scale", "output_zero_point")
_QUANTIZED = (*EIGHT_BITS, "int16", "int32")


def _sum_or_difference(combine: Any, restore: Any) -> Any:
    """Both operands under the output's scale, combined; ``restore`` leaves one output zero point in it."""

    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        left, right, left_scale, left_zero, right_scale, right_zero, scale, zero = operands
        check_dtype(left, "lhs", _QUANTIZED)
        wide = [
            requantize_or_widen(scope, *side, scale, zero, axis=axis)
            for side, axis in (
                ((left, left_scale, left_zero), attributes.lhs_axis),
                ((right, right_scale, right_zero), attributes.rhs_axis),
            )
        ]
        result = combine(*wide)
        if not is_zero(zero):
            result = restore(result, zero)
        return saturate(scope.emit(result), dtype_of(left))

    return build


def _product(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    left, right, left_scale, left_zero, right_scale, right_zero, scale, zero = operands
    check_dtype(left, "lhs", _QUANTIZED)
    check_scale(left_scale, "the scale of lhs")
    check_scale(right_scale, "the scale of rhs")
    check_zero_point(left_zero, "the zero point of lhs")
    check_zero_point(right_zero, "the zero point of rhs")
    left_axis = channel_axis(attributes.lhs_axis, left, "lhs_axis")
    right_axis = channel_axis(attributes.rhs_axis, right, "rhs_axis")
    product = scope.emit(
        relax.op.multiply(_shifted(left, left_zero, left_axis), _shifted(right, right_zero, right_axis))
    )
    per_channel = rank_of(left_scale) + rank_of(right_scale) > 0
    if per_channel and attributes.lhs_axis != attributes.rhs_axis:
        raise ModelError("lhs_axis and rhs_axis must be the same where a scale is a vector")
    scales = known(left_scale), known(right_scale)
    if scales[0] is not None and scales[1] is not None:
        if scales[0].size not in (1, scales[1].size) and scales[1].size != 1:
            raise ModelError(f"lhs has {scales[0].size} scales and rhs {scales[1].size}")
        product_scale = constant(np.asarray(scales[0] * scales[1], "float32"))
    else:
        product_scale = scope.emit(relax.op.multiply(left_scale, right_scale))
    return requantize(
        scope,
        product,
        product_scale,
        scalar(0, "int32"),
        scale,
        zero,
        dtype_of(left),
        axis=attributes.lhs_axis if per_channel else -1,
    )


def _shifted(data: Expression, zero_point: Expression, axis: int) -> Expression:
    value = relax.op.astype(data, "int32")
    return value if is_zero(zero_point) else relax.op.subtract(value, channelwise(zero_point, axis, data))


def _concatenate(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, scales, zero_points = (fields(scope, operand) for operand in operands[:3])
    if not len(data) == len(scales) == len(zero_points):
        raise ModelError(f"{len(data)} tensors have {len(scales)} scales and {len(zero_points)} zero points")
    results = []
    for value, scale, zero_point in zip(data, scales, zero_points, strict=True):
        check_dtype(value, "the data", _QUANTIZED)
        check_scale(scale, "an input scale", scalar_only=True)
        check_zero_point(zero_point, "an input zero point", scalar_only=True)
        as_int32 = requantize_or_widen(scope, value, scale, zero_point, *operands[3:])
        results.append(saturate(scope.emit(as_int32), dtype_of(value)))
    return relax.op.concat(results, attributes.axis)


def _average_pool(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data = operands[0]
    check_dtype(data, "the data", EIGHT_BITS)
    wide = scope.emit(requantize_or_widen(scope, *operands))
    pooled = scope.emit(build_pool(2, averages=True)(scope, (wide,), attributes))
    return saturate(pooled, dtype_of(data))


def _leaky_relu(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, _, input_zero_point, _, output_zero_point = operands
    check_dtype(data, "the data", EIGHT_BITS)
    positive = scope.emit(requantize_or_widen(scope, *operands))
    # Relay rounds the two parts of alpha * (q - z) + z each on its own.
    negative = relax.op.add(
        fixed_point_multiply(positive, np.array(attributes.alpha)),
        fixed_point_multiply(output_zero_point, np.array(1 - attributes.alpha)),
    )
    below = relax.op.less(relax.op.astype(data, "int32"), input_zero_point)
    return saturate(scope.emit(relax.op.where(below, negative, positive)), dtype_of(data))


_SOFTMAX_BITS = 30


def _softmax(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    """Integer softmax: exp(x) as a power of two whose fraction is approximated by a line."""
    data, scale, zero_point, output_scale, output_zero_point = operands
    check_dtype(data, "the data", ("int8",))
    check_divisor(scale, "the input scale", scalar_only=True)
    check_zero_point(zero_point, "the input zero point", scalar_only=True)
    number = known_number(scale)
    if number is None or not 0 < number <= 1:
        raise ModelError("the input scale must be a constant of at most 1")
    axis = channel_axis(attributes.axis, data)
    one = min(math.floor(float(np.float32(1) / np.float32(number)) + 0.5), 2**31 - 1)

    def shift_right(value: Expression, bits: int) -> Expression:
        return relax.op.right_shift(value, scalar(bits, "int32"))

    shifted = scope.emit(_shifted(data, zero_point, axis))
    x = scope.emit(relax.op.subtract(shifted, relax.op.max(shifted, axis, True)))
    # log2(e) is about 1 + 1/2 - 1/16.
    x = scope.emit(relax.op.subtract(relax.op.add(x, shift_right(x, 1)), shift_right(x, 4)))
    quotient = scope.emit(relax.op.clip(relax.op.floor_divide(x, scalar(-one, "int32")), 0, 20))
    largest = relax.op.max(quotient, axis, True)
    rest = relax.op.subtract(x, relax.op.multiply(quotient, scalar(-one, "int32")))
    line = relax.op.add(shift_right(rest, 1), scalar(one, "int32"))
    powers = scope.emit(relax.op.left_shift(line, relax.op.subtract(largest, quotient)))
    total = relax.op.sum(powers, axis, True)
    share = relax.op.floor_divide(scalar(1 << _SOFTMAX_BITS, "int32"), total)
    result = shift_right(relax.op.multiply(share, powers), _SOFTMAX_BITS - 7)
    return requantize(
        scope,
        scope.emit(result),
        scalar(1 / 128, "float32"),
        scalar(0, "int32"),
        output_scale,
        output_zero_point,
        "int8",
        axis=0,
    )


def _hard_swish(scope: Scope, value: Expression) -> Expression:
    value = scope.emit(value)
    gate = relax.op.clip(relax.op.add(value, scalar(3, "float32")), 0, 6)
    return relax.op.divide(relax.op.multiply(value, gate), scalar(6, "float32"))


_UNARY: dict[str, tuple[Callable[[np.ndarray], Any], Callable[[Scope, Expression], Expression]]] = {
    "abs": (np.abs, lambda scope, value: relax.op.abs(value)),
    "erf": (np.vectorize(math.erf, otypes=["float32"]), lambda scope, value: relax.op.erf(value)),
    "exp": (np.exp, lambda scope, value: relax.op.exp(value)),
    "hardswish": (lambda x: x * np.clip(x + np.float32(3), 0, 6) / np.float32(6), _hard_swish),
    "log": (np.log, lambda scope, value: relax.op.log(value)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda scope, value: relax.op.rsqrt(value)),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda scope, value: relax.op.sigmoid(value)),
    "sqrt": (np.sqrt, lambda scope, value: relax.op.sqrt(value)),
    "tanh": (np.tanh, lambda scope, value: relax.op.tanh(value)),
}


def _unary(function: Callable[[np.ndarray], Any], compose: Callable[[Scope, Expression], Expression]) -> Any:
    """Relay looks the result up in a table, for which it needs all four numbers.

    Where one of them is not a constant, the function itself is computed.
    """

    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        data, scale, zero_point, output_scale, output_zero_point = operands
        check_dtype(data, "the data", EIGHT_BITS)
        check_scale(scale, "the scale", scalar_only=True)
        check_zero_point(zero_point, "the zero point", scalar_only=True)
        check_divisor(output_scale, "the output scale", scalar_only=True)
        check_zero_point(output_zero_point, "the output zero point", scalar_only=True)
        dtype = dtype_of(data)
        numbers = [number for operand in operands[1:] if (number := known_number(operand)) is not None]
        if len(numbers) < 4:
            real = scope.emit(dequantize(scope, data, scale, zero_point, -1, "float32"))
            return quantize(scope, compose(scope, real), output_scale, output_zero_point, -1, dtype)
        limits = np.iinfo(dtype)
        table = constant(_lookup_table(function, dtype, *numbers))
        index = relax.op.subtract(relax.op.astype(data, "int32"), scalar(limits.min, "int32"))
        return relax.op.take(table, index, 0, mode="clip")

    return build


def _lookup_table(
    function: Callable[[np.ndarray], Any],
    dtype: str,
    scale: float,
    zero_point: float,
    output_scale: float,
    output_zero_point: float,
) -> np.ndarray:
    """The result for every value of ``dtype``, from the lowest, in float32 as Relay computes it."""
    limits = np.iinfo(dtype)
    values = np.arange(limits.min, limits.max + 1, dtype="int32")
    with np.errstate(all="ignore"):
        real = (values - int(zero_point)).astype("float32") * np.float32(scale)
        quotient = np.asarray(function(real), "float32") / np.float32(output_scale)
        whole = np.trunc(quotient)
        rounded = whole + np.where(np.abs(quotient - whole) >= 0.5, np.sign(quotient), 0)
        result = np.clip(rounded + np.float32(output_zero_point), limits.min, limits.max)
        return np.nan_to_num(result, nan=limits.min).astype(dtype)


_SIDES = "lhs rhs lhs_scale lhs_zero_point rhs_scale rhs_zero_point output_scale output_zero_point"
_RESULT = ("output_scale", "output_zero_point")


def _binary(name: str, build: Any) -> Operator:
    return Operator(f"qnn.{name}", tuple(_SIDES.split()), build, "BroadcastAttrs", carried=True)


def _prepare_leaky_relu(x: Any, alpha: float, **numbers: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    return [x, *(numbers[name] for name in _NUMBERS)], {"alpha": float(alpha)}


ROWS = (
    _binary("add", _sum_or_difference(relax.op.add, relax.op.subtract)),
    _binary("subtract", _sum_or_difference(relax.op.subtract, relax.op.add)),
    _binary("mul", _product),
    Operator(
        "qnn.concatenate",
        ("*data", "*input_scales", "*input_zero_points", *_RESULT),
        _concatenate,
        "ConcatenateAttrs",
        signature="data, input_scales, input_zero_points, output_scale, output_zero_point, axis",
        carried=True,
    ),
    Operator(
        "qnn.avg_pool2d",
        ("data", *_NUMBERS),
        _average_pool,
        "AvgPool2DAttrs",
        signature=(
            "data, input_scale, input_zero_point, output_scale, output_zero_point, pool_size, strides, "
            "padding, dilation, ceil_mode=False, count_include_pad=True, layout='NHWC', out_layout=''"
        ),
        carried=True,
    ),
    Operator(
        "qnn.leaky_relu",
        ("x", *_NUMBERS),
        _leaky_relu,
        "LeakyReluAttrs",
        signature="x, alpha, input_scale, input_zero_point, output_scale, output_zero_point",
        prepare=_prepare_leaky_relu,
        carried=True,
    ),
    Operator(
        "qnn.softmax",
        ("x", "scale", "zero_point", *_RESULT),
        _softmax,
        "SoftmaxAttrs",
        carried=True,
    ),
    *(
        Operator(f"qnn.{name}", ("x", "scale", "zero_point", *_RESULT), _unary(*functions), carried=True)
        for name, functions in _UNARY.items()
    ),
)
