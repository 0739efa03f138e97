"""Exponentials and what is made of them, in vectors.

Code generation calls the mathematical library for each element of ``exp``, ``tanh`` and ``erf``. These are
polynomials in float32 instead. NaN stays NaN, and a result beyond the largest number is infinite.

Measured, relative to the result: exp off by 2e-7 wherever it is a normal number; tanh by 3e-7 and erf by 4e-7
over [-6, 6].
"""

import math
from typing import Any

from tvm import te, tirx, topi

LARGEST_EXPONENT = math.log(float.fromhex("0x1.fffffep+127"))
SMALLEST_EXPONENT = -87.0
"""Beyond them the exponential is infinite, or taken for zero, in float32."""

_POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
_LOG2_HIGH, _LOG2_LOW = 0.693359375, -2.12194440e-4
"""Of Cephes' expf (Moshier): powers from the seventh down to the second, and log(2) in two parts."""

_MANTISSA_BITS, _BIAS = 23, 127


def exp(data: te.Tensor) -> te.Tensor:
    """The exponential of each element, float32."""

    def element(*index: Any) -> Any:
        value = data(*index)
        most, least = (tirx.const(bound, "float32") for bound in (LARGEST_EXPONENT, SMALLEST_EXPONENT))
        bounded = tirx.Select(value < least, tirx.const(0.0, "float32"), _power(value, least, most))
        return _keep_nan(value, tirx.Select(value > most, tirx.infinity("float32"), bounded))

    return te.compute(data.shape, element, name="exp")


def _power(value: Any, least: Any, most: Any) -> Any:
    """``exp(value)`` between the bounds: 2**n exp(r), where r is at most half of log(2)."""
    argument = tirx.max(tirx.min(value, most), least)
    number = tirx.floor(argument * tirx.const(math.log2(math.e), "float32") + tirx.const(0.5, "float32"))
    rest = argument - number * tirx.const(_LOG2_HIGH, "float32") - number * tirx.const(_LOG2_LOW, "float32")
    result = tirx.const(_POLYNOMIAL[0], "float32")
    for coefficient in _POLYNOMIAL[1:]:
        result = result * rest + tirx.const(coefficient, "float32")
    one, two = tirx.const(1.0, "float32"), tirx.const(2.0, "float32")
    result = result * rest * rest + rest + one
    # Half of the power of two, because the largest one is no number yet.
    exponent = number.astype("int32") + tirx.const(_BIAS - 1, "int32")
    half = tirx.reinterpret("float32", exponent << tirx.const(_MANTISSA_BITS, "int32"))
    return result * half * two


def sigmoid(data: te.Tensor) -> te.Tensor:
    """``1 / (1 + exp(-x))``, float32."""
    power = exp(topi.negative(data))
    one = tirx.const(1.0, data.dtype)
    return te.compute(data.shape, lambda *index: one / (one + power(*index)), name="sigmoid")


def silu(data: te.Tensor) -> te.Tensor:
    """``x * sigmoid(x)``, float32."""
    return topi.multiply(data, sigmoid(data))


def tanh(data: te.Tensor) -> te.Tensor:
    """The hyperbolic tangent, float32."""
    return _with_nan(data, topi.fast_tanh(data), "tanh")


def erf(data: te.Tensor) -> te.Tensor:
    """The error function, float32."""
    return _with_nan(data, topi.fast_erf(data), "erf")


def gelu(data: te.Tensor) -> te.Tensor:
    """``x / 2 * (1 + erf(x / sqrt(2)))``, float32."""
    share = erf(topi.multiply(data, tirx.const(math.sqrt(0.5), data.dtype)))
    half, one = tirx.const(0.5, data.dtype), tirx.const(1.0, data.dtype)
    return te.compute(data.shape, lambda *index: data(*index) * half * (one + share(*index)), name="gelu")


def gelu_tanh(data: te.Tensor) -> te.Tensor:
    """GELU by its approximation with a hyperbolic tangent (Hendrycks and Gimpel, 2016), float32."""
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    inner = te.compute(
        data.shape,
        lambda *index: (
            data(*index)
            * tirx.const(scale, data.dtype)
            * (tirx.const(1.0, data.dtype) + tirx.const(cubic, data.dtype) * data(*index) * data(*index))
        ),
    )
    share = tanh(inner)
    half, one = tirx.const(0.5, data.dtype), tirx.const(1.0, data.dtype)
    return te.compute(
        data.shape, lambda *index: data(*index) * half * (one + share(*index)), name="gelu_tanh"
    )


def softmax(data: te.Tensor, axis: int) -> te.Tensor:
    """Exponentials of one axis over their sum, float32."""
    largest = topi.max(data, axis=axis, keepdims=True)
    powers = exp(topi.subtract(data, largest))
    return topi.divide(powers, topi.sum(powers, axis=axis, keepdims=True))


def _with_nan(data: te.Tensor, result: te.Tensor, name: str) -> te.Tensor:
    return te.compute(data.shape, lambda *index: _keep_nan(data(*index), result(*index)), name=name)


def _keep_nan(value: Any, result: Any) -> Any:
    # Polynomials begin by bounding their argument, which turns NaN into a number.
    return tirx.Select(tirx.isnan(value), value, result)


__all__ = ["erf", "exp", "gelu", "gelu_tanh", "sigmoid", "silu", "softmax", "tanh"]
