"""Quotients and remainders of places that fall as loops rise, in a form that TVM computes rightly.

Where one variable is all that is divided, TVM takes ``(5 - i) % 3`` for ``-(i % -3)`` and ``(5 - i) // 3``
for ``i // -3 + 1`` when it flattens buffers, which leaves out what 5 is beyond a multiple of 3. Reversing a
tensor that was repeated, or reshaped after a transpose, reads such places.
"""

from typing import Any

from tvm import tirx

from topi_ext.codegen.passes import function_pass, replaced


@function_pass
def rising_places(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with divisions of numbers that only fall as those of numbers that only rise."""
    return replaced(func, ((tirx.FloorMod, _remainder), (tirx.FloorDiv, _quotient)))


def _remainder(division: tirx.FloorMod) -> Any:
    return (
        division if not _falls(division) else division.b - 1 - tirx.floormod(_mirrored(division), division.b)
    )


def _quotient(division: tirx.FloorDiv) -> Any:
    return division if not _falls(division) else -1 - tirx.floordiv(_mirrored(division), division.b)


def _mirrored(division: Any) -> Any:
    """``-number - 1``, which is as far into its multiple from below as the number is from above."""
    return 0 - division.a - 1


def _falls(division: Any) -> bool:
    divisor = division.b
    return isinstance(divisor, tirx.IntImm) and int(divisor) > 0 and _directions(division.a) == {-1}


def _directions(number: Any, sign: int = 1) -> set[int]:
    """Whether a number rises (1) or falls (-1) with the variables in it, for all of them together."""
    if isinstance(number, tirx.IntImm):
        return set()
    if isinstance(number, tirx.Add):
        return _directions(number.a, sign) | _directions(number.b, sign)
    if isinstance(number, tirx.Sub):
        return _directions(number.a, sign) | _directions(number.b, -sign)
    if isinstance(number, tirx.Mul) and isinstance(number.b, tirx.IntImm):
        return _directions(number.a, sign if int(number.b) > 0 else -sign)
    if isinstance(number, tirx.FloorDiv | tirx.FloorMod | tirx.Cast):
        return _directions(number.value if isinstance(number, tirx.Cast) else number.a, sign)
    return {sign}
