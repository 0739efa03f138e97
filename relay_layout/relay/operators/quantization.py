"""Scales and zero points of quantized tensors, and the change from one pair of them to another."""

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import (
    Constant,
    Expression,
    along_axis,
    constant,
    constant_array,
    dtype_of,
    known_to_differ,
)
from relay_layout.relay.operators.axis_arguments import axis_of
from relay_layout.relay.operators.fixed_point import (
    TONEAREST,
    UPWARD,
    fixed_point_multiply,
    round_to_nearest,
    round_upward,
    saturate,
)
from relay_layout.relay.operators.operator import Scope, along, extents, rank_of

UNSET = "None"
"""Relay's text for the rounding and the compute dtype that its configuration chooses."""

EIGHT_BITS = ("int8", "uint8")

_COMPUTE_DTYPES = ("int64", "float32", "float64")


def known(value: Expression) -> np.ndarray | None:
    """The value of a constant."""
    return constant_array(value) if isinstance(value, Constant) else None


def known_number(value: Expression) -> float | None:
    """The value of a constant without dimensions."""
    array = known(value)
    return float(array) if array is not None and array.ndim == 0 else None


def equal_numbers(left: Expression, right: Expression) -> bool:
    """Whether both are constants without dimensions, and the same."""
    number = known_number(left)
    return number is not None and number == known_number(right)


def is_zero(value: Expression) -> bool:
    """Whether a value is a constant of zeros."""
    array = known(value)
    return array is not None and not array.any()


def check_dtype(value: Expression, what: str, allowed: Sequence[str]) -> None:
    """ModelError unless a value has one of the dtypes."""
    if dtype_of(value) not in allowed:
        raise ModelError(f"{what} is {dtype_of(value)}; it can be {', '.join(allowed)}")


def check_dtype_attribute(dtype: str | None, allowed: Sequence[str]) -> str:
    """``out_dtype`` as it is; ModelError unless it is one of those allowed."""
    if dtype is None or dtype not in allowed:
        raise ModelError(f"out_dtype is {dtype}; it can be {', '.join(allowed)}")
    return dtype


def check_scale(scale: Expression, what: str, *, scalar_only: bool = False) -> None:
    """ModelError unless a scale is a number or a vector of float32, finite where it is known."""
    check_dtype(scale, what, ("float32",))
    _check_rank(scale, what, scalar_only)
    array = known(scale)
    if array is not None and not np.isfinite(array).all():
        raise ModelError(f"{what} is not finite")


def check_divisor(scale: Expression, what: str, *, scalar_only: bool = False) -> None:
    """:func:`check_scale`, and the scale must not be zero where it is known."""
    check_scale(scale, what, scalar_only=scalar_only)
    array = known(scale)
    if array is not None and not array.all():
        raise ModelError(f"{what} is 0")


def check_zero_point(zero_point: Expression, what: str, *, scalar_only: bool = False) -> None:
    """ModelError unless a zero point is a number or a vector of int32."""
    check_dtype(zero_point, what, ("int32",))
    _check_rank(zero_point, what, scalar_only)


def _check_rank(value: Expression, what: str, scalar_only: bool) -> None:
    rank = rank_of(value)
    if rank > (0 if scalar_only else 1):
        wanted = "a number" if scalar_only else "a number or a vector"
        raise ModelError(f"{what} is {wanted}, not a tensor of {rank} dimensions")


def channel_axis(axis: int, data: Expression, name: str = "axis") -> int:
    """An axis of ``data`` counted from the front; 0 for a tensor without dimensions."""
    return axis_of(axis, max(rank_of(data), 1), name)


def channelwise(value: Expression, axis: int, data: Expression) -> Expression:
    """A scale or zero point shaped to broadcast along ``axis`` of ``data``."""
    if rank_of(value) == 0:
        return value
    (count,) = extents(value)
    shape = extents(data)
    if count == 1:
        return relax.op.squeeze(value, [0])
    channels = shape[axis_of(axis, len(shape))] if shape else 1
    if known_to_differ(count, channels):
        raise ModelError(f"there are {count} scales or zero points for {channels} channels along axis {axis}")
    return along(value, axis, len(shape))


def requantize(
    scope: Scope,
    data: Expression,
    input_scale: Expression,
    input_zero_point: Expression,
    output_scale: Expression,
    output_zero_point: Expression,
    out_dtype: str,
    *,
    axis: int = -1,
    rounding: str = UNSET,
    compute_dtype: str = UNSET,
) -> Expression:
    """Quantized ``data`` under another scale and zero point.

    Constant scales are exactly what Relay computes: in fixed point unless ``compute_dtype`` is a floating
    point type. Relay lowers no other scales; here these are computed in float64.
    """
    check_scale(input_scale, "the input scale")
    check_zero_point(input_zero_point, "the input zero point")
    check_divisor(output_scale, "the output scale", scalar_only=True)
    check_zero_point(output_zero_point, "the output zero point", scalar_only=True)
    rounding = UPWARD if rounding == UNSET else rounding
    if rounding not in (UPWARD, TONEAREST):
        raise ModelError(f"rounding is '{rounding}'; it can be {UPWARD} or {TONEAREST}")
    compute_dtype = "int64" if compute_dtype == UNSET else compute_dtype
    if compute_dtype not in _COMPUTE_DTYPES:
        raise ModelError(f"compute_dtype is '{compute_dtype}'; it can be {', '.join(_COMPUTE_DTYPES)}")
    data = scope.emit(data)
    axis = channel_axis(axis, data)
    ratios = _ratios(input_scale, output_scale, axis, data)
    if ratios is not None and compute_dtype == "int64":
        value = _subtract_zero_point(data, input_zero_point, axis, "int32")
        if not equal_numbers(input_scale, output_scale):
            value = fixed_point_multiply(value, ratios, rounding)
        if not is_zero(output_zero_point):
            value = relax.op.add(value, output_zero_point)
        value = scope.emit(value)
        return value if out_dtype == "int32" else saturate(value, out_dtype)
    kind = "float64" if ratios is None else compute_dtype
    value = _subtract_zero_point(data, input_zero_point, axis, kind)
    if ratios is None:
        wide_input = relax.op.astype(channelwise(input_scale, axis, data), kind)
        value = relax.op.multiply(value, relax.op.divide(wide_input, relax.op.astype(output_scale, kind)))
    elif not equal_numbers(input_scale, output_scale):
        value = relax.op.multiply(value, constant(ratios.astype(kind)))
    if not is_zero(output_zero_point):
        value = relax.op.add(value, relax.op.astype(output_zero_point, kind))
    value = scope.emit(value)
    rounded = round_upward(value) if rounding == UPWARD else round_to_nearest(value)
    return saturate(scope.emit(rounded), out_dtype)


def _ratios(
    input_scale: Expression, output_scale: Expression, axis: int, data: Expression
) -> np.ndarray | None:
    """Input scales over the output scale, shaped to broadcast to ``data``; None where one is not known."""
    numerator, denominator = known(input_scale), known(output_scale)
    if numerator is None or denominator is None:
        return None
    channelwise(input_scale, axis, data)
    ratios = numerator.astype("float64") / denominator.astype("float64")
    return along_axis(ratios, axis, rank_of(data))


def _subtract_zero_point(data: Expression, zero_point: Expression, axis: int, dtype: str) -> Expression:
    value = relax.op.astype(data, dtype)
    if is_zero(zero_point):
        return value
    return relax.op.subtract(value, relax.op.astype(channelwise(zero_point, axis, data), dtype))


def quantize(
    scope: Scope, data: Expression, scale: Expression, zero_point: Expression, axis: int, out_dtype: str
) -> Expression:
    """float32 to integers of ``out_dtype``, halves rounded away from zero, with saturation."""
    check_divisor(scale, "the output scale")
    check_zero_point(zero_point, "the output zero point")
    data = scope.emit(data)
    scaled = scope.emit(relax.op.divide(data, channelwise(scale, axis, data)))
    shift = relax.op.astype(channelwise(zero_point, axis, data), "float32")
    return saturate(scope.emit(relax.op.add(round_to_nearest(scaled), shift)), out_dtype)


def dequantize(
    scope: Scope, data: Expression, scale: Expression, zero_point: Expression, axis: int, out_dtype: str
) -> Expression:
    """Integers to the numbers that they stand for, computed in float32."""
    check_scale(scale, "the input scale")
    check_zero_point(zero_point, "the input zero point")
    data = scope.emit(data)
    shifted = _subtract_zero_point(data, zero_point, axis, "int32")
    value = relax.op.multiply(relax.op.astype(shifted, "float32"), channelwise(scale, axis, data))
    if out_dtype == "float32":
        return value
    limits = np.finfo(out_dtype)
    return relax.op.astype(relax.op.clip(value, float(limits.min), float(limits.max)), out_dtype)


def requantize_or_widen(
    scope: Scope,
    data: Expression,
    scale: Expression,
    zero_point: Expression,
    output_scale: Expression,
    output_zero_point: Expression,
    *,
    axis: int = -1,
) -> Expression:
    """``data`` as int32 under the output's scale and zero point; as it is where these are equal."""
    if equal_numbers(scale, output_scale) and equal_numbers(zero_point, output_zero_point):
        return relax.op.astype(data, "int32")
    return requantize(scope, data, scale, zero_point, output_scale, output_zero_point, "int32", axis=axis)


def fields(scope: Scope, value: Expression) -> list[Expression]:
    """The entries of a tuple operand."""
    if isinstance(value, relax.Tuple):
        return list(value.fields)
    return [scope.emit(relax.TupleGetItem(value, index)) for index in range(len(value.ty.fields))]
