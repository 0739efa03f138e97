"""Sine and cosine in vectors, which code generation would ask of the mathematical library one by one.

An argument is brought to within an eighth of a turn of zero by quarters of a turn, which are taken off in
float64 (Cody and Waite, "Software Manual for the Elementary Functions", 1980): float32 would lose the digits
of large arguments. What is left has the polynomials of Cephes (Moshier) in float32. Off by 1e-7 at most for
arguments up to 2**26; beyond these by 2**-53 of the argument as well, and never outside of -1 and 1.
"""

import math
from typing import Any

from tvm import te, tirx

from topi_ext.compute.transcendental import bound, elementwise, polynomial

_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)

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
        within = tirx.max(tirx.const(-1.0, "float32"), tirx.min(tirx.const(1.0, "float32"), narrow))
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
        half = tirx.const(0.5, "float32")
        cosine = tirx.const(1.0, "float32") - half * square + square * square * polynomial(_COSINE, square)
        size = tirx.Select((number & one) == one, cosine, sine)
        # The sign is the first bit; the second half of a turn is the first one with the other sign.
        signed = tirx.reinterpret("int32", size) ^ ((number & two) << tirx.const(30, "int32"))
        return tirx.reinterpret("float32", signed)

    return bound(rest * rest, with_square)


def _double(value: float) -> Any:
    return tirx.const(value, "float64")


__all__ = ["cos", "sin"]
