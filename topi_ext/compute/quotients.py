"""Quotients and remainders of integers in vectors; processors divide integers one by one.

Floats of more bits than both integers divide them: what is nearest to a quotient that is no integer is none
either, and lies on the same side of those next to it. Products of a divisor are exact.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import te, tirx

from topi_ext.compute.broadcasting import broadcast
from topi_ext.compute.transcendental import bound

EXACT = {**dict.fromkeys(("int8", "uint8", "int16", "uint16"), "float32"), "int32": "float64"}
"""The floats that divide integers of each type."""


def quotient(dividend: te.Tensor, divisor: te.Tensor, shape: Any) -> te.Tensor:
    """``dividend`` by ``divisor``, rounded towards 0, in the shape that both are broadcast to.

    Both are of one of the types in EXACT. By 0 it is that by 1, and that of the least integer by -1 wraps.
    """
    return _divided(dividend, divisor, shape, _wrapped, tirx.trunc, "quotient")


def floored_quotient(dividend: te.Tensor, divisor: te.Tensor, shape: Any) -> te.Tensor:
    """As :func:`quotient`, rounded down."""
    return _divided(dividend, divisor, shape, _wrapped, tirx.floor, "floored_quotient")


def integer_remainder(dividend: te.Tensor, divisor: te.Tensor, shape: Any) -> te.Tensor:
    """What :func:`quotient` times the divisor leaves of the dividend; by 0 it is 0."""
    return _divided(dividend, divisor, shape, _rest, tirx.trunc, "integer_remainder")


def floored_integer_remainder(dividend: te.Tensor, divisor: te.Tensor, shape: Any) -> te.Tensor:
    """What :func:`floored_quotient` times the divisor leaves of the dividend; by 0 it is 0."""
    return _divided(dividend, divisor, shape, _rest, tirx.floor, "floored_integer_remainder")


def _divided(
    dividend: te.Tensor,
    divisor: te.Tensor,
    shape: Any,
    made: Callable[..., Any],
    rounded: Callable[[Any], Any],
    name: str,
) -> te.Tensor:
    dtype = str(dividend.dtype)
    wide = EXACT[dtype]

    def element(left: Any, right: Any) -> Any:
        zero, one = (tirx.const(number, wide) for number in (0, 1))

        def divided(right: Any) -> Any:
            return bound(rounded(left / right), lambda found: made(found, left, right, dtype), wide)

        result = bound(tirx.Select(right == zero, one, right), divided, wide)
        # No float is as narrow as a byte.
        return result.astype("int32").astype(dtype)

    return broadcast(dividend, divisor, shape, element, name, wide)


def _wrapped(found: Any, left: Any, right: Any, dtype: str) -> Any:
    """A quotient, of which one that int32 does not hold is its least number."""
    if dtype != "int32":
        return found
    limits = np.iinfo(dtype)
    least, most = (tirx.const(int(limit), "float64") for limit in (limits.min, limits.max))
    return tirx.Select(found > most, least, found)


def _rest(found: Any, left: Any, right: Any, dtype: str) -> Any:
    return left - found * right
