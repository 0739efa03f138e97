"""For which values of one variable two extents are equal.

Extents of images are quasi-linear: sums, floored quotients and remainders by constants, and what is least or
most of several, are a line plus something periodic, from some size on. Where the lines of two extents are
parallel their difference is periodic, and what holds up to there and throughout one period holds for all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from tvm import sym, tirx

from relay_layout.frontend.extents.known_sizes import Interval, known_interval
from relay_layout.ir import Extent

_LONGEST = 1 << 16
"""No period that is longer is looked at, nor one that begins later."""

_OF_TWO = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)


class Residues(NamedTuple):
    """The numbers that leave ``rest`` when they are divided by ``divisor``: all of them where that is 1."""

    divisor: int
    rest: int


ALL = Residues(1, 0)


@dataclass(frozen=True)
class _QuasiLinear:
    """``value`` of a variable: ``slope`` times the variable, plus what repeats from ``start`` on."""

    slope: Fraction
    period: int
    start: int
    value: Callable[[int], int]


def equal_residues(left: Extent, right: Extent, known: Residues) -> Residues | None:
    """Values of their only variable, among those that are ``known``, with which two extents are equal.

    Of those the residue class with the smallest divisor, and of these the multiples if they are one. Nothing
    is said of 0, as images have pixels. None where there is no such class, and for extents of several
    variables or of other operators.
    """
    difference = _difference(left, right)
    if difference is None or difference.slope != 0:
        return None
    period = lcm(difference.period, known.divisor)
    least = max(1, known_interval(_variables(left, right)[0]).least)
    last = max(difference.start, least) + period + 1
    sizes = range(known.rest, last, known.divisor)
    zeros = {size for size in sizes if size < least or difference.value(size) == 0}
    for divisor in range(known.divisor, period + 1, known.divisor):
        if period % divisor == 0:
            for rest in range(known.rest, divisor, known.divisor):
                if zeros.issuperset(range(rest, last, divisor)):
                    return Residues(divisor, rest)
    return None


def equal_interval(left: Extent, right: Extent) -> Interval | None:
    """The values of their only variable with which two extents are equal, where these are all from some on,
    whichever smaller ones may be too, or exactly those from some to others; nothing is said of 0.

    None where there are fewer than two, where they come again and again (:func:`equal_residues`), and for
    extents of several variables or other operators.
    """
    difference = _difference(left, right)
    if difference is None:
        return None
    known = known_interval(_variables(left, right)[0])
    last = max(difference.start, known.least) + difference.period + 1
    sizes = range(max(1, known.least), last if known.most is None else min(last, known.most + 1))
    equal = {size for size in sizes if difference.value(size) == 0}
    if len(equal) < 2:
        return None
    runs = [size for size in equal if size - 1 not in equal]
    first, end = max(runs), max(equal)
    least = known.least if first == sizes[0] else first
    if end == sizes[-1] != known.most:
        covers_a_period = first <= max(sizes[0], difference.start)
        return Interval(least, None) if difference.slope == 0 and covers_a_period else None
    # Parallel lines may meet again a period later.
    once = len(runs) == 1 and (difference.slope or sizes[-1] == known.most)
    return Interval(least, end) if once else None


def never_more(left: Extent, right: Extent, *, least: int = 0) -> bool:
    """Whether one extent is proven to be at most the other where their variables are ``least`` or more."""
    if isinstance(left, int) and isinstance(right, int):
        return left <= right
    difference = _difference(left, right)
    if difference is None:
        return _least_value(right - left, least) >= 0
    known = known_interval(_variables(left, right)[0])
    first = max(least, known.least)
    last = difference.start + difference.period + first
    if known.most is not None and known.most < last:
        last = known.most + 1
    elif difference.slope > 0:
        return False
    return all(difference.value(size) <= 0 for size in range(first, last))


def _least_value(extent: Extent, least: int) -> int:
    """What TVM tells that an extent is at least, where each variable is ``least`` or more on its own."""
    analyzer = sym.Analyzer()
    for variable in _variables(extent):
        known = known_interval(variable)
        most = sym.ConstIntBound.POS_INF if known.most is None else known.most
        analyzer.update(variable, sym.ConstIntBound(max(least, known.least), most))
    return int(analyzer.const_int_bound(analyzer.simplify(extent)).min_value)


def slope(extent: Extent) -> Fraction | None:
    """By how much an extent rises for each one more of its only variable, on average.

    None for extents of several variables and of other operators, and for products of extents that rise.
    """
    found = _quasi_linear(extent) if len(_variables(extent)) == 1 else None
    return None if found is None else found.slope


def _variables(*extents: Extent) -> list[tirx.Var]:
    found = {
        variable
        for extent in extents
        if not isinstance(extent, int)
        for variable in tirx.analysis.undefined_vars(extent)
    }
    return list(found)


def _difference(left: Extent, right: Extent) -> _QuasiLinear | None:
    """The difference of extents of one variable."""
    if len(_variables(left, right)) != 1:
        return None
    one, other = _quasi_linear(left), _quasi_linear(right)
    return None if one is None or other is None else _minus(one, other)


def _quasi_linear(extent: Extent) -> _QuasiLinear | None:
    match extent:
        case int():
            return _constant(extent)
        case tirx.IntImm():
            return _constant(int(extent))
        case tirx.Var():
            return _QuasiLinear(Fraction(1), 1, 0, lambda size: size)
    if not isinstance(extent, _OF_TWO):
        return None
    left, right = _quasi_linear(extent.a), _quasi_linear(extent.b)
    return None if left is None or right is None else _of_two(extent, left, right)


def _of_two(extent: Extent, left: _QuasiLinear, right: _QuasiLinear) -> _QuasiLinear | None:
    if isinstance(extent, tirx.Mul) and _ends_constant(left):
        left, right = right, left
    number = right.value(0) if _is_constant(right) else None
    match extent:
        case tirx.Add():
            return _combined(left, right, left.slope + right.slope, lambda one, other: one + other)
        case tirx.Sub():
            return _minus(left, right)
        case tirx.Min():
            return _extreme(left, right, min)
        case tirx.Max():
            return _extreme(left, right, max)
        case tirx.Mul() if _ends_constant(right):
            slope = left.slope * right.value(right.start)
            return _combined(left, right, slope, lambda one, other: one * other)
        case tirx.FloorDiv() if number:
            return _combined(left, right, left.slope / number, lambda one, other: one // other, number)
        case tirx.FloorMod() if number:
            return _combined(left, right, Fraction(0), lambda one, other: one % other, number)
    return None


def _constant(number: int) -> _QuasiLinear:
    return _QuasiLinear(Fraction(0), 1, 0, lambda size: number)


def _ends_constant(extent: _QuasiLinear) -> bool:
    """Is it the same for all sizes from some on?"""
    return extent.slope == 0 and extent.period == 1


def _is_constant(extent: _QuasiLinear) -> bool:
    return _ends_constant(extent) and extent.start == 0


def _minus(left: _QuasiLinear, right: _QuasiLinear) -> _QuasiLinear | None:
    return _combined(left, right, left.slope - right.slope, lambda one, other: one - other)


def _extreme(
    left: _QuasiLinear, right: _QuasiLinear, choose: Callable[[int, int], int]
) -> _QuasiLinear | None:
    """The least or the most of two: the same one from some size on, unless their lines are parallel."""
    difference = _minus(left, right)
    if difference is None:
        return None
    start, period = difference.start, difference.period
    if difference.slope:
        above = difference.slope > 0
        while start <= _LONGEST and any(
            (difference.value(size) > 0) is not above for size in range(start, start + period)
        ):
            start += period
    found = _combined(left, right, max(left.slope, right.slope), choose)
    if found is None or start > _LONGEST:
        return None
    start = max(start, found.start)
    if not difference.slope:
        return replace(found, start=start)
    # From there on it is one of the two, and repeats as often as that one does.
    chosen = left if (difference.slope > 0) is (choose(0, 1) == 1) else right
    return replace(found, slope=chosen.slope, period=chosen.period, start=start)


def _combined(
    left: _QuasiLinear,
    right: _QuasiLinear,
    slope: Fraction,
    operation: Callable[[int, int], int],
    divisor: int = 1,
) -> _QuasiLinear | None:
    """An operation of two; dividing by ``divisor`` repeats where the dividend has risen by a multiple."""
    period = lcm(left.period, right.period, left.slope.denominator, right.slope.denominator)
    rise = left.slope * period
    period *= abs(divisor) // gcd(int(rise), divisor)
    if period > _LONGEST:
        return None
    start = max(left.start, right.start)
    return _QuasiLinear(slope, period, start, lambda size: operation(left.value(size), right.value(size)))
