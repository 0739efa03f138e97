"""Extents of tensors, numbers or symbolic, and what is known of their products."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm_ffi import structural_equal

from relay_layout.ir import factors


class Symbol:
    """A symbolic extent, compared as an expression."""

    __slots__ = ("expression",)

    def __init__(self, expression: Any) -> None:
        self.expression = expression

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Symbol):
            return False
        left, right = self.expression, other.expression
        if left.same_as(right) or structural_equal(left, right):
            return True
        return _provably_equal(left, right) or _quotient(left, right) == 1

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        return str(self.expression)


Extent = int | Symbol
Shape = tuple[Extent, ...]


def extents(shape: Sequence[Any]) -> Shape:
    """A shape as this package compares them."""
    return tuple(extent if isinstance(extent, int) else Symbol(extent) for extent in shape)


def times(left: Extent, right: Extent) -> Extent:
    """The product of two extents."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if left == 1 or right == 1:
        return right if left == 1 else left
    before = left if isinstance(left, int) else left.expression
    return Symbol(before * (right if isinstance(right, int) else right.expression))


def ratio(left: Extent, right: Extent) -> Extent | None:
    """``left`` divided by ``right``; None where it is not known to be even."""
    if isinstance(left, int) and isinstance(right, int):
        if left == right:
            return 1
        return left // right if right and left % right == 0 else None
    if right == 1:
        return left
    if isinstance(left, int):
        return None
    if left == right:
        return 1
    return _quotient(left.expression, right if isinstance(right, int) else right.expression)


def _quotient(left: Any, right: Any) -> Extent | None:
    """By the factors of both, else as TVM simplifies the division."""
    number, multiplied = factors(left)
    divisor, others = factors(right)
    for other in others:
        place = next((place for place, own in enumerate(multiplied) if _are_equal(own, other)), None)
        if place is None:
            return _simplified(left, right)
        del multiplied[place]
    if divisor == 0 or number % divisor:
        return _simplified(left, right)
    product: Extent = number // divisor
    for factor in multiplied:
        product = times(product, Symbol(factor))
    return product


def _are_equal(left: Any, right: Any) -> bool:
    return bool(structural_equal(left, right)) or _provably_equal(left, right)


def _provably_equal(left: Any, right: Any) -> bool:
    """Whether sizes, never negative, are equal: one pass may write ``min(0, n * 2)`` for 0."""
    if tvm.sym.Analyzer().can_prove_equal(left, right):
        return True
    analyzer = tvm.sym.Analyzer()
    for variable in tirx.analysis.undefined_vars(left - right):
        analyzer.update(variable, tvm.sym.ConstIntBound(0, tvm.sym.ConstIntBound.POS_INF))
    return bool(analyzer.can_prove_equal(left, right))


def _simplified(left: Any, right: Any) -> Extent | None:
    analyzer = tvm.sym.Analyzer()
    if isinstance(right, int):
        right = tirx.const(right, "int64")
    quotient = analyzer.simplify(tirx.floordiv(left, right))
    if not analyzer.can_prove_equal(quotient * right, left):
        return None
    return int(quotient) if isinstance(quotient, tirx.IntImm) else Symbol(quotient)
