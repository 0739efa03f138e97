"""Remainders of floats in vectors; code generation would ask the mathematical library for each element.

A quotient of float32 may be as large as 2**277. Of what float64 holds of it, the multiples of the divisor are
taken off exactly, by multiply-adds that round once, until less than the divisor is left.
"""

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.held_values import held
from topi_ext.compute.broadcasting import broadcast
from topi_ext.compute.transcendental import bound, single

_STEPS = 6
"""Each leaves less than a 2**50th of the quotient."""

_BEYOND = 2.0**130
"""More than any float32, of which it is no multiple."""

_SIGN = -(2**31)
"""The bit of a float32 that is its sign, as an int32."""


def remainder(dividend: te.Tensor, divisor: te.Tensor, shape: Any) -> te.Tensor:
    """What is left of each element of ``dividend`` once all multiples of that of ``divisor`` are taken off.

    Both are float32 and are broadcast to ``shape``, and the result is exact, with the sign of the dividend:
    the ``fmod`` of C. NaN where the dividend is infinite, the divisor 0, or one of them NaN.
    """
    return broadcast(dividend, divisor, shape, _remainder, "remainder")


def floored_remainder(dividend: te.Tensor, divisor: te.Tensor, shape: Any) -> te.Tensor:
    """As :func:`remainder`, but with the sign of the divisor: the divisor is added where that is another."""
    return broadcast(dividend, divisor, shape, _floored_remainder, "floored_remainder")


def _floored_remainder(dividend: Any, divisor: Any) -> Any:
    def with_rest(rest: Any) -> Any:
        zero, raised = single(0.0), rest + divisor
        below = tirx.Select(rest > zero, raised, rest)
        return tirx.Select(divisor < zero, below, tirx.Select(rest < zero, raised, rest))

    return _remainder(dividend, divisor, with_rest)


def _remainder(dividend: Any, divisor: Any, made: Callable[[Any], Any] = lambda rest: rest) -> Any:
    """What is ``made`` of the remainder."""

    def with_divisor(size: Any) -> Any:
        inverse = _double(1.0) / size
        return bound(inverse, lambda inverse: with_inverse(size, inverse), "float64")

    def with_inverse(size: Any, inverse: Any) -> Any:
        return bound(
            tirx.abs(dividend).astype("float64"), lambda rest: reduced(rest, size, inverse, _STEPS), "float64"
        )

    def reduced(rest: Any, size: Any, inverse: Any, steps: int) -> Any:
        if steps == 0:
            # The last quotient may be off by one.
            raised = tirx.Select(rest < _double(0.0), rest + size, rest)
            return bound(raised, lambda rest: signed(tirx.Select(rest >= size, rest - size, rest)), "float64")
        multiples = -tirx.trunc(rest * inverse)
        left = held(tirx.call_llvm_pure_intrin("float64", "llvm.fma", multiples, size, rest))
        return bound(left, lambda left: reduced(left, size, inverse, steps - 1), "float64")

    def signed(rest: Any) -> Any:
        sign = tirx.reinterpret("int32", dividend) & tirx.const(_SIGN, "int32")
        bits = tirx.reinterpret("int32", rest.astype("float32")) | sign
        return bound(tirx.reinterpret("float32", bits), made)

    # By an infinite one nothing is taken off. NaN passes where it is the second operand.
    size = tirx.min(_double(_BEYOND), tirx.abs(divisor).astype("float64"))
    return bound(size, with_divisor, "float64")


def _double(value: float) -> Any:
    return tirx.const(value, "float64")
