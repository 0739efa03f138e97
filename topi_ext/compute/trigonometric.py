"""Sines, cosines and angles in vectors; code generation would ask the mathematical library for each element.

An argument of a sine is brought to within an eighth of a turn of zero by quarters of a turn, which are taken
off in float64 (Cody and Waite, "Software Manual for the Elementary Functions", 1980): float32 would lose the
digits of large arguments. What is left has the polynomials of Cephes (Moshier) in float32. Off by 1e-7 at
most for arguments up to 2**26; beyond these by 2**-53 of the argument as well, and never outside of -1 and 1.

Angles are polynomials of Cephes as well, off by 3e-7 of the result at most.
"""

import math
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from topi_ext.compute.transcendental import bound, elementwise, polynomial, single

_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)

_ARC_TANGENT = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_ARC_SINE = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)

_QUARTER_HIGH = math.floor(math.pi / 2 * 2**26) / 2**26
"""The first bits of a quarter of a turn: its multiples up to 2**26 are exact in float64."""

_QUARTER_LOW = 9.920935796805404e-10
"""What is left of it: pi / 2 - :data:`_QUARTER_HIGH`, of which float64's pi has but the first digits."""

_ROUNDING = 1.5 * 2**52
"""A float64 near this one has no digits behind the point."""


def sin(data: te.Tensor) -> te.Tensor:
    """The sine of each element, float32, in radians; NaN of infinite ones."""
    return elementwise(data, lambda value: _of_quarters(value, 0), "sin")


def cos(data: te.Tensor) -> te.Tensor:
    """The cosine of each element, float32, in radians; NaN of infinite ones."""
    return elementwise(data, lambda value: _of_quarters(value, 1), "cos")


def atan(data: te.Tensor) -> te.Tensor:
    """The angle whose tangent each element is, float32, in radians."""
    return elementwise(data, _arc_tangent, "atan")


def asin(data: te.Tensor) -> te.Tensor:
    """The angle whose sine each element is, float32, in radians; NaN beyond -1 and 1."""
    return elementwise(data, _arc_sine, "asin")


def acos(data: te.Tensor) -> te.Tensor:
    """The angle whose cosine each element is, float32, in radians; NaN beyond -1 and 1."""
    return elementwise(data, _arc_cosine, "acos")


def _arc_tangent(value: Any) -> Any:
    def with_size(size: Any) -> Any:
        # An eighth and three eighths of half a turn are where the other polynomials begin.
        steep, middle = size > single(math.tan(3 * math.pi / 8)), size > single(math.tan(math.pi / 8))
        one = single(1.0)
        rest = tirx.Select(steep, -one / size, tirx.Select(middle, (size - one) / (size + one), size))
        begin = tirx.Select(steep, single(math.pi / 2), tirx.Select(middle, single(math.pi / 4), single(0.0)))
        angle = bound(rest, lambda rest: begin + _odd(_ARC_TANGENT, rest))
        return tirx.Select(value < single(0.0), -angle, angle)

    return bound(tirx.abs(value), with_size)


def _arc_sine(value: Any) -> Any:
    def with_size(size: Any) -> Any:
        large = size > single(0.5)
        angle = bound(
            tirx.Select(large, tirx.sqrt(single(0.5) * (single(1.0) - size)), size),
            lambda rest: _odd(_ARC_SINE, rest),
        )
        signed = bound(
            angle, lambda angle: tirx.Select(large, single(math.pi / 2) - single(2.0) * angle, angle)
        )
        return bound(signed, lambda signed: tirx.Select(value < single(0.0), -signed, signed))

    return bound(tirx.abs(value), with_size)


def _arc_cosine(value: Any) -> Any:
    def with_size(size: Any) -> Any:
        large = size > single(0.5)
        # By the half angle, which keeps the digits of what is next to no angle.
        rest = tirx.Select(large, tirx.sqrt(single(0.5) * (single(1.0) - size)), value)

        def with_angle(angle: Any) -> Any:
            twice = single(2.0) * angle
            turned = tirx.Select(value < single(0.0), single(math.pi) - twice, twice)
            return tirx.Select(large, turned, single(math.pi / 2) - angle)

        return bound(bound(rest, lambda rest: _odd(_ARC_SINE, rest)), with_angle)

    return bound(tirx.abs(value), with_size)


def _odd(coefficients: Sequence[float], value: Any) -> Any:
    """``value`` and an odd polynomial of it from the third power on."""
    return bound(value * value, lambda square: value + value * square * polynomial(coefficients, square))


def _of_quarters(value: Any, ahead: int) -> Any:
    """The sine of ``value`` and ``ahead`` quarters of a turn."""

    def with_wide(wide: Any) -> Any:
        rounded = wide * _double(2 / math.pi) + _double(_ROUNDING)
        return bound(rounded, lambda rounded: with_rounded(wide, rounded), "float64")

    def with_rounded(wide: Any, rounded: Any) -> Any:
        quarters = rounded - _double(_ROUNDING)
        rest = wide - quarters * _double(_QUARTER_HIGH) - quarters * _double(_QUARTER_LOW)
        of_a_turn = quarters - _double(4.0) * tirx.floor(quarters * _double(0.25))
        narrow = rest.astype("float32")
        # NaN passes where it is the second operand.
        within = tirx.max(single(-1.0), tirx.min(single(1.0), narrow))
        # Whole numbers are not bound: TVM takes variables of int32 for indices, and may make them longer.
        return bound(
            of_a_turn.astype("float32"),
            lambda turn: bound(within, lambda rest: _quarter(rest, turn.astype("int32") + ahead)),
        )

    return bound(value.astype("float64"), with_wide, "float64")


def _quarter(rest: Any, number: Any) -> Any:
    """The sine of ``rest``, small, and ``number`` quarters of a turn."""
    one, two = tirx.const(1, "int32"), tirx.const(2, "int32")

    def with_square(square: Any) -> Any:
        sine = rest + rest * square * polynomial(_SINE, square)
        cosine = single(1.0) - single(0.5) * square + square * square * polynomial(_COSINE, square)
        size = tirx.Select((number & one) == one, cosine, sine)
        # The sign is the first bit; the second half of a turn is the first one with the other sign.
        signed = tirx.reinterpret("int32", size) ^ ((number & two) << tirx.const(30, "int32"))
        return tirx.reinterpret("float32", signed)

    return bound(rest * rest, with_square)


def _double(value: float) -> Any:
    return tirx.const(value, "float64")
