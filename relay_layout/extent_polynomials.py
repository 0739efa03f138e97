"""Extents as sums of products, in which equal ones read the same however they were computed."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from tvm import sym, tirx
from tvm_ffi import StructuralKey

from relay_layout.ir import Extent

Factor = Hashable
"""A variable, a :class:`Quotient`, or another operator's result, which is taken as a whole."""
Product = frozenset[tuple[Factor, int]]
"""What is multiplied, each with how often it is."""
Polynomial = Mapping[Product, int]
"""How often each product is added; none is 0."""

_ONE: Product = frozenset()

_MOST = 64
"""Products in a sum that is still looked at."""


class Quotient(NamedTuple):
    """A sum over a positive number, rounded down.

    Of each product of the sum it has the remainder: how often it is added is less than the number.
    """

    dividend: frozenset[tuple[Product, int]]
    divisor: int


def provably_equal(one: Sequence[Extent], other: Sequence[Extent]) -> bool:
    """Whether two shapes are the same whatever their symbols are, however they are written."""
    return len(one) == len(other) and all(map(_equal, one, other))


def _equal(one: Extent, other: Extent) -> bool:
    if sym.Analyzer().can_prove_equal(one, other):
        return True
    # TVM multiplies no sums: 64 * (x + 1) * y is (x * 2 + 2) * y * 32.
    left = polynomial(one, {})
    return left is not None and left == polynomial(other, {})


def polynomial(extent: Extent, known: Mapping[tirx.Var, Polynomial]) -> Polynomial | None:
    """``extent`` as a sum of products, with what is ``known`` of variables in place of them.

    None where there would be too many.
    """
    match extent:
        case int() | tirx.IntImm():
            return _sum([(frozenset(), int(extent))])
        case tirx.Var():
            return known.get(extent, {frozenset({(extent, 1)}): 1})
        case tirx.Add() | tirx.Sub() | tirx.Mul():
            left, right = polynomial(extent.a, known), polynomial(extent.b, known)
            if left is None or right is None or len(left) * len(right) > _MOST:
                return None
            if isinstance(extent, tirx.Mul):
                return _product(left, right)
            return _sum([*left.items(), *_times(right, -1 if isinstance(extent, tirx.Sub) else 1)])
        case tirx.FloorDiv() | tirx.FloorMod():
            dividend, divisor = polynomial(extent.a, known), polynomial(extent.b, known)
            if dividend is None or divisor is None:
                return None
            whole = _quotient(dividend, divisor)
            if whole is not None and isinstance(extent, tirx.FloorMod):
                return _sum([*dividend.items(), *_times(_product(whole, divisor), -1)])
            if whole is not None:
                return whole
    return {frozenset({(StructuralKey(extent), 1)}): 1}  # type: ignore[call-arg]


def _quotient(dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """A quotient rounded down; None by what is neither a number nor a product that divides all of a sum."""
    if divisor.keys() == {_ONE}:
        return _quotient_by_number(dividend, divisor[_ONE]) if divisor[_ONE] > 0 else None
    if len(divisor) != 1:
        return None
    ((product, count),) = divisor.items()
    terms = []
    for factors, times in dividend.items():
        left = Counter(dict(factors))
        left.subtract(dict(product))
        if times % count or min(left.values(), default=0) < 0:
            return None
        terms.append((frozenset((+left).items()), times // count))
    return _sum(terms)


def _quotient_by_number(dividend: Polynomial, divisor: int) -> Polynomial:
    """Multiples of the divisor go before it: of ``x - 1`` it is that of ``x + divisor - 1``, less one."""
    rest = {product: count % divisor for product, count in dividend.items() if count % divisor}
    terms = [(product, count // divisor) for product, count in dividend.items()]
    if rest.keys() - {_ONE}:
        terms += _less_than_divisor(rest, divisor).items()
    return _sum(terms)


def _less_than_divisor(dividend: Polynomial, divisor: int) -> Polynomial:
    """The quotient as a factor; of a quotient it is one by the product of both divisors."""
    shift = dividend.get(_ONE, 0)
    for product, count in dividend.items():
        match tuple(product):
            case ((Quotient() as inner, 1),) if count == 1 and len(dividend) == 1 + bool(shift):
                both = _sum([*inner.dividend, (_ONE, shift * inner.divisor)])
                return _quotient_by_number(both, inner.divisor * divisor)
    return {frozenset({(Quotient(frozenset(dividend.items()), divisor), 1)}): 1}


def _times(terms: Polynomial, number: int) -> list[tuple[Product, int]]:
    return [(factors, count * number) for factors, count in terms.items()]


def _sum(terms: list[tuple[Product, int]]) -> Polynomial:
    total: Counter[Product] = Counter()
    for factors, count in terms:
        total[factors] += count
    return {factors: count for factors, count in total.items() if count}


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    return _sum(
        [
            (frozenset((Counter(dict(one)) + Counter(dict(other))).items()), count * times)
            for one, count in left.items()
            for other, times in right.items()
        ]
    )
