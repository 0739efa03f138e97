"""Powers of floats in vectors; code generation would ask the mathematical library for each element.

Logarithm, product and power are computed in float64, so that results are off by 0.6 of their last digit: an
exponent of 100 makes an error of the logarithm a hundred times as large. Zeros, infinities, NaN and negative
bases become what C's ``pow`` makes of them.
"""

import math
from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.held_values import held
from topi_ext.compute.broadcasting import broadcast
from topi_ext.compute.transcendental import EXPONENTIAL, bound, polynomial, single

_MANTISSA_BITS, _BIAS = 52, 1023
"""A float64 is 2**n where its bits are n + the bias behind as many of the mantissa."""

_ROOT_BITS = 0x3FE6A09E667F3BCD
"""The bits of the root of one half, from which to its double the mantissas are."""

_WHOLE = 2.0**52
"""A float64 from here to its double is whole, and its last bits are what is above it."""

_LOGARITHM = tuple(2 / math.log(2) / power for power in range(13, 0, -2))
"""Coefficients of log2((1 + s) / (1 - s)): of odd powers, highest first; off by 2e-12 where mantissas end."""

_EXPONENTIAL = tuple(c * math.log(2) ** power for power, c in enumerate(reversed(EXPONENTIAL)))[::-1]
"""Coefficients of 2**x, off by 3e-9 at most up to one half."""

_MOST = 200.0
"""The power of two that is infinite in float32; by as much below zero it is zero."""


def power(base: te.Tensor, exponent: te.Tensor, shape: Any) -> te.Tensor:
    """Elements of ``base`` raised to those of ``exponent``, both float32, broadcast to ``shape``."""
    return broadcast(base, exponent, shape, _power, "power")


def _power(base: Any, exponent: Any) -> Any:
    # No value that is bound binds another one: TVM, which puts it in two places, would find it bound twice.
    def with_logarithm(logarithm: Any) -> Any:
        # Of one, and to the power of zero, it is one, NaN or not.
        is_one = tirx.Or(logarithm == _double(0.0), exponent == single(0.0))
        product = tirx.Select(is_one, _double(0.0), logarithm * exponent.astype("float64"))
        return bound(held(product), lambda product: _with_power_of_two(product, signed), "float64")

    def signed(size: Any) -> Any:
        is_whole = tirx.floor(exponent) == exponent
        half = single(0.5) * exponent
        is_odd = tirx.And(is_whole, tirx.floor(half) < half)
        # A negative zero has a sign as well, and is above no number.
        bits = tirx.reinterpret("int32", base)
        flipped = tirx.Select(tirx.And(bits < 0, is_odd), -size, size)
        is_finite = tirx.And(base < single(0.0), base > -tirx.infinity("float32"))
        is_none = tirx.And(is_finite, tirx.Not(is_whole))
        return tirx.Select(is_none, tirx.const(math.nan, "float32"), flipped)

    size = tirx.abs(base).astype("float64")
    return bound(size, lambda size: _with_logarithm(size, with_logarithm), "float64")


def _with_logarithm(size: Any, made: Callable[[Any], Any]) -> Any:
    """What is ``made`` of the logarithm to base two of a float64 that is a float32's and not negative."""
    bits = tirx.reinterpret("int64", size)
    # The exponent and the bias, for mantissas of the root of one half and more.
    shifted = bits + (_integer(_BIAS << _MANTISSA_BITS) - _integer(_ROOT_BITS))
    number = shifted >> _integer(_MANTISSA_BITS)
    exponent = tirx.reinterpret("float64", number + tirx.reinterpret("int64", _double(_WHOLE)))
    mantissa = tirx.reinterpret(
        "float64", bits - (number << _integer(_MANTISSA_BITS)) + _integer(_BIAS << _MANTISSA_BITS)
    )

    def with_mantissa(mantissa: Any) -> Any:
        share = (mantissa - _double(1.0)) / (mantissa + _double(1.0))
        return bound(share, with_share, "float64")

    def with_share(share: Any) -> Any:
        return bound(share * share, lambda square: with_square(share, square), "float64")

    def with_square(share: Any, square: Any) -> Any:
        found = (exponent - _double(_WHOLE + _BIAS)) + share * polynomial(_LOGARITHM, square, "float64")
        known = tirx.Select(size < tirx.infinity("float64"), found, size)
        logarithm = tirx.Select(size == _double(0.0), -tirx.infinity("float64"), known)
        return bound(held(logarithm), made, "float64")

    return bound(mantissa, with_mantissa, "float64")


def _with_power_of_two(value: Any, made: Callable[[Any], Any]) -> Any:
    """What is ``made`` of 2**value, rounded to float32; NaN of NaN."""
    rounding = 1.5 * _WHOLE + _BIAS

    def with_argument(argument: Any) -> Any:
        rounded = argument + _double(rounding)
        return bound(rounded, lambda rounded: with_rounded(argument, rounded), "float64")

    def with_rounded(argument: Any, rounded: Any) -> Any:
        rest = argument - (rounded - _double(rounding))
        return bound(rest, lambda rest: with_rest(rest, rounded), "float64")

    def with_rest(rest: Any, rounded: Any) -> Any:
        scale = tirx.reinterpret("int64", rounded) << _integer(_MANTISSA_BITS)
        wide = polynomial(_EXPONENTIAL, rest, "float64") * tirx.reinterpret("float64", scale)
        return bound(held(wide.astype("float32")), made)

    # NaN passes where it is the second operand.
    bounded = tirx.max(_double(-_MOST), tirx.min(_double(_MOST), value))
    return bound(bounded, with_argument, "float64")


def _double(value: float) -> Any:
    return tirx.const(value, "float64")


def _integer(value: int) -> Any:
    return tirx.const(value, "int64")
