"""Exponentials and what is made of them, in vectors.

Code generation calls the mathematical library for each element of ``exp``, ``tanh`` and ``erf``. These are
polynomials in float32 instead. NaN stays NaN, and a result beyond the largest number is infinite.

What an expression uses several times is bound to a variable: a fused function has the expression of the whole
chain before it in the place of its argument, and would otherwise grow with the product of all such counts.

Measured, relative to the result: exp off by 2e-7 from -86.98 on, below which it is taken for zero; tanh by
3e-7 and erf by 4e-7 over [-6, 6].
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx, topi

SMALLEST_EXPONENT = -86.98
"""Below it the exponential is taken for zero in float32."""

_INFINITE_EXPONENT = 89.0
"""An argument whose exponential is infinite in float32: log(2**128) is 88.7."""

EXPONENTIAL = (
    1.3814541243e-3,
    8.3687451096e-3,
    4.1668390768e-2,
    1.6666520399e-1,
    4.9999993432e-1,
    1.0,
    1.0,
)
"""Coefficients of exp, off by 3e-9 at most up to half of log(2): the least that this degree allows."""

_LOG2_HIGH, _LOG2_LOW = 0.693359375, -2.12194440e-4
"""log(2) in two parts, of which multiples of the first are exact (Cephes, by Moshier)."""

_LOGARITHM = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
"""Coefficients of log(1 + x) - x + x**2 / 2, over x**3, between sqrt(1/2) - 1 and sqrt(2) - 1 (Cephes)."""

_HALF_EXPONENT = 126
"""The exponent, as float32 stores it, of numbers from one half on."""

_ROUNDING = 1.5 * 2**23
"""A float32 near this one has no digits behind the point, and its last bits are an integer."""

_TANH_BOUND, _ERF_BOUND = 9.0, 4.0
"""Where the functions are one in float32."""

_TANH = (
    (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    ),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)
_ERF = (
    (
        -2.72614225801306e-10,
        2.77068142495902e-08,
        -2.10102402082508e-06,
        -5.69250639462346e-05,
        -7.34990630326855e-04,
        -2.95459980854025e-03,
        -1.60960333262415e-02,
    ),
    (
        -1.45660718464996e-05,
        -2.13374055278905e-04,
        -1.68282697438203e-03,
        -7.37332916720468e-03,
        -1.42647390514189e-02,
    ),
)
"""Eigen's vectorized tanh and erf: coefficients of odd powers over those of even ones, highest first."""

_SINH = {
    dtype: tuple(1 / math.factorial(power) for power in range(highest, 0, -2))
    for dtype, highest in (("float32", 9), ("float64", 19))
}
"""The Taylor series of sinh: coefficients of odd powers, highest first; off by 3e-8 and 2e-20 at one."""

_MANTISSA_BITS, _BIAS = 23, 127
"""A float32 is 2**n where its bits are n + the bias behind as many of the mantissa."""


def exp(data: te.Tensor) -> te.Tensor:
    """The exponential of each element, float32."""
    return elementwise(data, _exp, "exp")


def exp_of(value: Any) -> Any:
    """:func:`exp` of an expression."""
    return bound(value, _exp)


def _exp(value: Any) -> Any:
    # NaN passes where it is the second operand. Half of the power has an exponent where that itself is
    # infinite; the least one stands for zero.
    most, least = single(_INFINITE_EXPONENT), single(-(_BIAS - 1) * math.log(2))
    half = _power(tirx.max(least, tirx.min(most, value)), bias=_BIAS - 1)
    return single(2.0) * half


def _of_no_more_than_zero(value: Any) -> Any:
    """The exponential of what is at most 0: two thirds of the instructions of any number's."""
    # NaN passes where it is the second operand.
    return _power(tirx.max(single(-_BIAS * math.log(2)), value))


def _power(value: Any, bias: int = _BIAS) -> Any:
    """``exp(value)``, times a power of two by less than the ``bias`` of float32: 2**n exp(r), where r is at
    most half of log(2).

    Infinite from a biased n of 255 on, zero for one of 0, between which n has to be. NaN stays NaN.
    """
    rounding = single(_ROUNDING + bias)

    def with_argument(argument: Any) -> Any:
        # A float32 with n and the bias in its last bits, and nothing else in its last nine.
        rounded = argument * single(math.log2(math.e)) + rounding
        return bound(rounded, lambda rounded: with_rounded(argument, rounded))

    def with_rounded(argument: Any, rounded: Any) -> Any:
        number = rounded - rounding
        return bound(number, lambda number: with_number(argument, rounded, number))

    def with_number(argument: Any, rounded: Any, number: Any) -> Any:
        rest = argument - number * single(_LOG2_HIGH) - number * single(_LOG2_LOW)
        exponent = tirx.reinterpret("int32", rounded) << tirx.const(_MANTISSA_BITS, "int32")
        power = tirx.reinterpret("float32", exponent)
        return bound(rest, lambda rest: polynomial(EXPONENTIAL, rest) * power)

    return bound(value, with_argument)


def log(data: te.Tensor) -> te.Tensor:
    """The natural logarithm of each element, float32; minus infinity of zero, NaN of negative numbers."""
    return elementwise(data, _log, "log")


def _log(value: Any) -> Any:
    # What has no exponent of its own is scaled to have one.
    is_tiny = value < single(2.0**-126)
    scaled = tirx.Select(is_tiny, value * single(2.0**_MANTISSA_BITS), value)

    def with_scaled(scaled: Any) -> Any:
        bits = tirx.reinterpret("int32", scaled)
        half = tirx.const(_HALF_EXPONENT, "int32")
        mantissa = bits & tirx.const((1 << _MANTISSA_BITS) - 1, "int32")
        fraction = tirx.reinterpret("float32", mantissa | (half << tirx.const(_MANTISSA_BITS, "int32")))
        missing = tirx.Select(is_tiny, half + tirx.const(_MANTISSA_BITS, "int32"), half)
        exponent = ((bits >> tirx.const(_MANTISSA_BITS, "int32")) - missing).astype("float32")
        return bound(fraction, lambda fraction: with_fraction(fraction, exponent))

    def with_fraction(fraction: Any, exponent: Any) -> Any:
        is_small = fraction < single(math.sqrt(0.5))
        rest = tirx.Select(is_small, fraction + fraction, fraction) - single(1.0)
        power = tirx.Select(is_small, exponent - single(1.0), exponent)
        return bound(rest, lambda rest: bound(power, lambda power: _of_parts(rest, power)))

    positive = tirx.Select(value < tirx.infinity("float32"), bound(scaled, with_scaled), value)
    other = tirx.Select(value == single(0.0), -tirx.infinity("float32"), tirx.const(math.nan, "float32"))
    return tirx.Select(value > single(0.0), positive, other)


def _of_parts(rest: Any, power: Any) -> Any:
    """The logarithm of ``(1 + rest) * 2**power``, where ``rest`` is from sqrt(1/2) - 1 to sqrt(2) - 1."""

    def with_square(square: Any) -> Any:
        bent = rest * square * polynomial(_LOGARITHM, rest) + power * single(_LOG2_LOW)
        return rest + (bent - single(0.5) * square) + power * single(_LOG2_HIGH)

    return bound(rest * rest, with_square)


def sigmoid(data: te.Tensor) -> te.Tensor:
    """``1 / (1 + exp(-x))``, float32."""
    return elementwise(data, _sigmoid, "sigmoid")


def sigmoid_of(value: Any) -> Any:
    """:func:`sigmoid` of an expression."""
    return bound(value, _sigmoid)


def _sigmoid(value: Any) -> Any:
    # NaN passes where it is the second operand. The bound above is one whose power is infinite.
    bounded = tirx.max(single(SMALLEST_EXPONENT), tirx.min(single(_INFINITE_EXPONENT), -value))
    return single(1.0) / (single(1.0) + _power(bounded))


def silu(data: te.Tensor) -> te.Tensor:
    """``x * sigmoid(x)``, float32."""
    return topi.multiply(data, sigmoid(data))


def tanh(data: te.Tensor) -> te.Tensor:
    """The hyperbolic tangent, float32."""
    return elementwise(data, _tanh, "tanh")


def tanh_of(value: Any) -> Any:
    """:func:`tanh` of an expression."""
    return bound(value, _tanh)


def _tanh(value: Any) -> Any:
    return _keep_nan(value, _ratio(_TANH, value, _TANH_BOUND))


def sinh(data: te.Tensor) -> te.Tensor:
    """The hyperbolic sine, float32 or float64; infinite where the exponential is."""
    dtype = str(data.dtype)
    power = _exponential_of_size(data)
    half, one, zero = (tirx.const(number, dtype) for number in (0.5, 1.0, 0.0))

    def element(*index: Any) -> Any:
        def with_argument(value: Any) -> Any:
            # Below one the difference of the exponentials would lose digits.
            small = value * polynomial(_SINH[dtype], value * value, dtype)
            large = half * (power(*index) - one / power(*index))
            signed = tirx.Select(value < zero, -large, large)
            return _keep_nan(value, tirx.Select(tirx.abs(value) < one, small, signed))

        return bound(data(*index), with_argument, dtype)

    return te.compute(data.shape, element, name="sinh")


def cosh(data: te.Tensor) -> te.Tensor:
    """The hyperbolic cosine, float32 or float64; infinite where the exponential is."""
    power = _exponential_of_size(data)
    half, one = (tirx.const(number, data.dtype) for number in (0.5, 1.0))
    return te.compute(data.shape, lambda *index: half * (power(*index) + one / power(*index)), name="cosh")


def _exponential_of_size(data: te.Tensor) -> te.Tensor:
    """The exponential of the absolute value."""
    size = topi.abs(data)
    return exp(size) if str(data.dtype) == "float32" else topi.exp(size)


def erf(data: te.Tensor) -> te.Tensor:
    """The error function, float32."""
    return elementwise(data, lambda value: _keep_nan(value, _ratio(_ERF, value, _ERF_BOUND)), "erf")


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
    powers = elementwise(topi.subtract(data, largest), _of_no_more_than_zero, "exp")
    total = topi.sum(powers, axis=axis, keepdims=True)
    # A processor divides a vector in the time of a dozen products.
    share = te.compute(total.shape, lambda *index: single(1.0) / total(*index), name="share")
    return topi.multiply(powers, share)


def log_softmax(data: te.Tensor, axis: int) -> te.Tensor:
    """Logarithms of what softmax gives, float32, which may be smaller than softmax can tell from zero."""
    shifted = topi.subtract(data, topi.max(data, axis=axis, keepdims=True))
    powers = elementwise(shifted, _of_no_more_than_zero, "exp")
    total = topi.sum(powers, axis=axis, keepdims=True)
    return topi.subtract(shifted, topi.log(total))


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], value: Any, limit: float) -> Any:
    """An odd polynomial over an even one, of ``value`` between -``limit`` and ``limit``."""
    odd, even = coefficients

    def with_argument(argument: Any) -> Any:
        def with_square(square: Any) -> Any:
            return argument * polynomial(odd, square) / polynomial(even, square)

        return bound(argument * argument, with_square)

    return bound(tirx.max(tirx.min(value, single(limit)), single(-limit)), with_argument)


def polynomial(coefficients: Sequence[float], value: Any, dtype: str = "float32") -> Any:
    """By Horner's rule; the coefficient of the highest power comes first."""
    result = tirx.const(coefficients[0], dtype)
    for coefficient in coefficients[1:]:
        result = result * value + tirx.const(coefficient, dtype)
    return result


def elementwise(data: te.Tensor, element: Callable[[Any], Any], name: str) -> te.Tensor:
    """``element`` of each float32 element, which it may read several times."""
    return te.compute(data.shape, lambda *index: bound(data(*index), element), name=name)


def bound(value: Any, body: Callable[[Any], Any], dtype: str = "float32") -> Any:
    """``body`` of a variable that holds ``value``."""
    variable = tirx.Var("value", dtype)
    return tirx.Let(variable, value, body(variable))


def single(value: float) -> Any:
    """A constant of float32."""
    return tirx.const(value, "float32")


def _keep_nan(value: Any, result: Any) -> Any:
    # Polynomials begin by bounding their argument, which turns NaN into a number.
    return tirx.Select(tirx.isnan(value), value, result)
