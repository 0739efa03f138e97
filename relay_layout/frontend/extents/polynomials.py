"""Extents as sums of products of variables, in which equal ones read the same however they were computed."""

from collections import Counter
from collections.abc import Mapping

from tvm import tirx

from relay_layout.ir import Extent

Product = frozenset[tuple[tirx.Var, int]]
"""The variables that are multiplied, each with how often it is."""
Polynomial = Mapping[Product, int]
"""How often each product is added; none is 0."""

_MOST = 64
"""Products in a sum that is still looked at."""


def polynomial(extent: Extent, known: Mapping[tirx.Var, Polynomial]) -> Polynomial | None:
    """``extent`` as a sum of products, with what is ``known`` of variables in place of them.

    None for extents with other operators, such as quotients.
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
            sign = -1 if isinstance(extent, tirx.Sub) else 1
            return _sum([*left.items(), *((factors, sign * count) for factors, count in right.items())])
    return None


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


__all__ = ["Polynomial", "polynomial"]
