"""What PyTorch computes of complex numbers element by element, of their parts."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.complex_numbers.pair import Operand, Pair, as_pair, paired, parts
from relay_layout.frontend.torch.rules.rule import aten

_MOST_FACTORS = 16
"""The largest power that is a product; others are computed of logarithms."""


def multiply(left: Operand, right: Operand) -> Pair:
    """The product, in which parts that are zero take no arithmetic."""
    (a, b), (c, d) = parts(left), parts(right)
    if b is None and d is None:
        return paired(a * c, None)
    if b is None:
        return paired(a * c, a * d)
    if d is None:
        return paired(a * c, b * c)
    return paired(a * c - b * d, a * d + b * c)


def add(left: Operand, right: Operand, *, alpha: complex = 1) -> Pair:
    """``left + alpha * right``."""
    return _summed(left, _scaled(right, alpha), operator.add)


def subtract(left: Operand, right: Operand, *, alpha: complex = 1) -> Pair:
    """``left - alpha * right``."""
    return _summed(left, _scaled(right, alpha), operator.sub)


def _scaled(value: Operand, factor: complex) -> Operand:
    if factor == 1:
        return value
    return multiply(value, factor) if isinstance(value, Tensor | Pair) else value * factor


def _summed(left: Operand, right: Operand, operation: Callable[..., Any]) -> Pair:
    (a, b), (c, d) = parts(left), parts(right)
    real = operation(a, c)
    if b is None and d is None:
        return paired(real, None)
    imaginary = operation(0 if b is None else b, d) if d is not None else b
    if not isinstance(imaginary, Tensor):
        imaginary = torch.full((), imaginary, dtype=real.dtype)
    return paired(real, imaginary)


def _reversed_subtract(left: Operand, right: Operand, alpha: complex = 1) -> Pair:
    return subtract(right, left, alpha=alpha)


def divide(left: Operand, right: Operand) -> Pair:
    """The quotient, by the larger part of the divisor, so that its square is finite and not zero."""
    c, d = parts(right)
    if d is None:
        a, b = parts(left)
        return paired(a / c, None if b is None else b / c)
    if not isinstance(c, Tensor):
        return multiply(left, 1 / complex(c, d))
    scale = torch.maximum(c.abs(), d.abs())
    c, d = c / scale, d / scale
    quotient = multiply(left, Pair(c, -d))
    divisor = scale * (c * c + d * d)
    return Pair(quotient.real / divisor, quotient.imaginary / divisor)


def conjugate(value: Pair) -> Pair:
    """The same real part, and the imaginary one with the other sign."""
    return Pair(value.real, -value.imaginary)


def magnitude(value: Pair) -> Tensor:
    """The absolute value."""
    return torch.hypot(value.real, value.imaginary)


def angle(value: Pair) -> Tensor:
    """The argument, from -pi to pi."""
    return torch.atan2(value.imaginary, value.real)


def polar(absolute: Tensor, argument: Tensor) -> Pair:
    """The number of that absolute value and that argument."""
    return paired(absolute * torch.cos(argument), absolute * torch.sin(argument))


def _exponential(value: Pair) -> Pair:
    return polar(torch.exp(value.real), value.imaginary)


def _logarithm(value: Pair) -> Pair:
    return Pair(torch.log(magnitude(value)), angle(value))


def _square_root(value: Pair) -> Pair:
    # The part that is a sum, and the other one as a quotient by it: a difference would cancel.
    larger = torch.sqrt((magnitude(value) + value.real.abs()) / 2)
    smaller = torch.where(larger == 0, 0.0, value.imaginary.abs() / (2 * larger))
    is_right = value.real >= 0
    real, imaginary = torch.where(is_right, larger, smaller), torch.where(is_right, smaller, larger)
    return Pair(real, torch.copysign(imaginary, value.imaginary))


def power(value: Pair, exponent: complex) -> Pair:
    """A power, a product of factors where the exponent is a small integer."""
    if exponent == 0.5:
        return _square_root(value)
    if exponent != int(exponent.real) or abs(exponent) > _MOST_FACTORS:
        return _exponential(multiply(_logarithm(value), exponent))
    number = int(exponent.real)
    if not number:
        return paired(torch.ones_like(value.real), None)
    result = value
    for digit in bin(abs(number))[3:]:
        result = multiply(result, result)
        result = multiply(result, value) if digit == "1" else result
    return divide(1.0, result) if number < 0 else result


def _direction(value: Pair) -> Pair:
    absolute = magnitude(value)
    is_zero = absolute == 0
    return Pair(*(torch.where(is_zero, 0.0, part / absolute) for part in (value.real, value.imaginary)))


def _tangent(value: Pair) -> Pair:
    """The hyperbolic tangent, by exponentials of negative numbers alone."""
    decay = torch.exp(-2 * value.real.abs())
    twice = 2 * value.imaginary
    divisor = 1 + 2 * decay * torch.cos(twice) + decay * decay
    real = torch.copysign(-torch.expm1(-4 * value.real.abs()), value.real) / divisor
    return Pair(real, 2 * decay * torch.sin(twice) / divisor)


def _cosine(value: Pair) -> Pair:
    return Pair(
        torch.cos(value.real) * torch.cosh(value.imaginary),
        -torch.sin(value.real) * torch.sinh(value.imaginary),
    )


def _sine(value: Pair) -> Pair:
    return Pair(
        torch.sin(value.real) * torch.cosh(value.imaginary),
        torch.cos(value.real) * torch.sinh(value.imaginary),
    )


def _sigmoid(value: Pair) -> Pair:
    half = _tangent(Pair(value.real / 2, value.imaginary / 2))
    return Pair(half.real / 2 + 0.5, half.imaginary / 2)


def _equal(left: Operand, right: Operand) -> Tensor:
    one, other = as_pair(left), as_pair(right)
    return (one.real == other.real) & (one.imaginary == other.imaginary)


def _norm(
    value: Pair,
    order: float = 2,
    dims: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    return torch.linalg.vector_norm(magnitude(value), order, dims, keepdim, dtype=dtype and dtype.to_real())


def _of_either(operation: Callable[[Tensor], Tensor], combine: Callable[..., Tensor]) -> Any:
    """A truth of numbers that is one of their parts."""
    return lambda value: combine(operation(value.real), operation(value.imaginary))


RULES: dict[Any, Callable[..., Any]] = {
    aten.abs.default: magnitude,
    aten.add.Scalar: add,
    aten.add.Tensor: add,
    aten.angle.default: angle,
    aten.complex.default: paired,
    aten.cos.default: _cosine,
    aten.div.Scalar: divide,
    aten.div.Tensor: divide,
    aten.eq.Scalar: _equal,
    aten.eq.Tensor: _equal,
    aten.exp.default: _exponential,
    aten.isfinite.default: _of_either(torch.isfinite, torch.logical_and),
    aten.isinf.default: _of_either(torch.isinf, torch.logical_or),
    aten.isnan.default: _of_either(torch.isnan, torch.logical_or),
    aten.linalg_vector_norm.default: _norm,
    aten.log.default: _logarithm,
    aten.mul.Scalar: multiply,
    aten.mul.Tensor: multiply,
    aten.ne.Scalar: lambda left, right: ~_equal(left, right),
    aten.ne.Tensor: lambda left, right: ~_equal(left, right),
    aten.polar.default: polar,
    aten.pow.Tensor_Scalar: power,
    aten.reciprocal.default: lambda value: divide(1.0, value),
    aten.rsub.Scalar: _reversed_subtract,
    aten.rsub.Tensor: _reversed_subtract,
    aten.rsqrt.default: lambda value: divide(1.0, _square_root(value)),
    aten.sgn.default: _direction,
    aten.sigmoid.default: _sigmoid,
    aten.sin.default: _sine,
    aten.sqrt.default: _square_root,
    aten.square.default: lambda value: multiply(value, value),
    aten.sub.Scalar: subtract,
    aten.sub.Tensor: subtract,
    aten.tanh.default: _tangent,
    **dict.fromkeys((aten._conj.default, aten._conj_physical.default, aten.conj_physical.default), conjugate),
}
"""By operation: functions of its arguments, with a Pair for every complex tensor."""
