"""Extents as sums of products, in which equal ones read the same however they were computed."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from tvm import sym, tirx
from tvm_ffi import StructuralKey

from relay_layout.ir import Extent

Factor = Hashable
"""A variable, or a quotient or another operator's result, which is taken as a whole."""
Product = frozenset[tuple[Factor, int]]
"""What is multiplied, each with how often it is."""
Polynomial = Mapping[Product, int]
"""How often each product is added; none is 0."""

_MOST = 64
"""Products in a sum that is still looked at."""


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
            sign = -1 if isinstance(extent, tirx.Sub) else 1
            return _sum([*left.items(), *((factors, sign * count) for factors, count in right.items())])
    return {frozenset({(StructuralKey(extent), 1)}): 1}  # type: ignore[call-arg]


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


__all__ = ["Polynomial", "polynomial", "provably_equal"]
