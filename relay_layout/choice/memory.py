"""Layouts of one value with equal memory order, between which no transform is needed."""

from collections.abc import Hashable, Sequence
from functools import lru_cache

from relay_layout.graph import Value
from relay_layout.ir import is_static
from relay_layout.layout import Layout
from relay_layout.layout.transform import equivalent_memory


def same_memory(value: Value, left: Layout, right: Layout) -> bool:
    """Do both layouts put every element of ``value`` at the same address?"""
    if left == right:
        return True
    rank = max(len(left.primal), len(right.primal))
    return _same_memory(expanded(left, rank), expanded(right, rank), expanded_shape(value, rank))


@lru_cache(maxsize=1 << 16)
def _same_memory(left: Layout, right: Layout, shape: tuple[object, ...]) -> bool:
    return equivalent_memory(left, right, shape, Layout.generic(len(shape)))


def expanded(layout: Layout, rank: int) -> Layout:
    """The layout of the same memory seen with leading unit dimensions, as broadcasting sees it."""
    missing = rank - len(layout.primal)
    if missing <= 0:
        return layout
    letters = str(Layout.generic(rank))
    shifted = layout.relabel(dict(zip(letters, letters[missing:], strict=False))) if layout.primal else layout
    return Layout.parse(letters[:missing] + str(shifted))


def expanded_shape(value: Value, rank: int) -> tuple[object, ...]:
    """The extents of ``value`` with leading unit dimensions up to ``rank``."""
    shape = value.shape or ()
    return (1,) * (rank - len(shape)) + tuple(shape)


class MemoryOrders:
    """Numbers the memory orders of values: layouts with equal memory order have one number.

    Values of equal static shape share their numbers.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, dict[Layout, int]] = {}
        self._first: dict[Hashable, list[Layout]] = {}

    def number(self, value: Value, layout: Layout) -> int:
        """The number, from 0, of the memory order of ``value`` in ``layout``."""
        key = _key(value)
        numbers = self._numbers.setdefault(key, {})
        if layout not in numbers:
            first = self._first.setdefault(key, [])
            same = (number for number, other in enumerate(first) if same_memory(value, layout, other))
            numbers[layout] = next(same, len(first))
            if numbers[layout] == len(first):
                first.append(layout)
        return numbers[layout]

    def layouts(self, value: Value) -> Sequence[Layout]:
        """One layout for each memory order of ``value``, by number."""
        return self._first.get(_key(value), ())


def _key(value: Value) -> Hashable:
    # Symbolic extents cannot be keys: comparing them builds an expression.
    return value.shape if value.shape is not None and is_static(value.shape) else value
