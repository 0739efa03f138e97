"""Extents as products of factors: the pixels of an image are its rows times its columns."""

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, prod

from tvm import tirx

from relay_layout.frontend.extents.arithmetic import product, same, simplify
from relay_layout.frontend.extents.residues import slope
from relay_layout.ir import Extent, factors

Pair = tuple[Extent, Extent]


def pairs_of_factors(left: Extent, right: Extent) -> Sequence[Pair]:
    """Pairs of extents: ``left`` is ``right`` where both of each pair are equal.

    Factors of both are left out. ``h // 2 * (w // 2) * 4`` and ``h * w`` are two pairs, ``h // 2 * 2`` and
    ``h``, ``w // 2 * 2`` and ``w``: numbers go to the sizes that grow too slowly without them.
    """
    ones, others = _without_common(_factors(left), _factors(right))
    return _by_size(ones, others) or [(product(ones), product(others))]


def _by_size(left: Sequence[Extent], right: Sequence[Extent]) -> Sequence[Pair] | None:
    """A pair for each variable; None where a factor has several, or where no numbers even them out."""
    factors: dict[tirx.Var | None, tuple[list[Extent], list[Extent]]] = {None: ([], [])}
    for place, side in enumerate((left, right)):
        for factor in side:
            sizes = [] if isinstance(factor, int) else list(tirx.analysis.undefined_vars(factor))
            if len(sizes) > 1:
                return None
            factors.setdefault(sizes[0] if sizes else None, ([], []))[place].append(factor)
    number, other_number = map(product, factors.pop(None))
    if not isinstance(number, int) or not isinstance(other_number, int) or not other_number:
        return None
    missing, pairs = Fraction(number, other_number), []
    for ones, others in factors.values():
        one, other = product(ones), product(others)
        rise, other_rise = slope(one), slope(other)
        if not rise or not other_rise:
            return None
        ratio = other_rise / rise
        pairs.append((product([one, ratio.numerator]), product([other, ratio.denominator])))
        missing /= ratio
    return pairs if missing == 1 else None


def _factors(extent: Extent) -> list[Extent]:
    """Those that are multiplied, from left to right."""
    if isinstance(extent, tirx.Mul):
        return [*_factors(extent.a), *_factors(extent.b)]
    return [simplify(extent)]


def _without_common(left: Sequence[Extent], right: Sequence[Extent]) -> tuple[list[Extent], list[Extent]]:
    ones, others = list[Extent](), list(right)
    for factor in left:
        place = next((place for place, other in enumerate(others) if same(factor, other)), None)
        if place is None:
            ones.append(factor)
        else:
            del others[place]
    return ones, others


def without_shared(shape: Sequence[Extent], goal: Sequence[Extent]) -> tuple[list[Extent], list[Extent]]:
    """What two products multiply, without factors of both: less to prove and to divide."""
    apart = [[factors(simplify(extent)) for extent in extents] for extents in (shape, goal)]
    numbers = [prod(number for number, _ in each) for each in apart]
    left, right = ([factor for _, others in each for factor in others] for each in apart)
    for factor in list(right):
        twin = next((other for other in left if same(other, factor)), None)
        if twin is not None:
            left.remove(twin)
            right.remove(factor)
    shared = gcd(*numbers) if all(numbers) else 1
    return [numbers[0] // shared, *left], [numbers[1] // shared, *right]
