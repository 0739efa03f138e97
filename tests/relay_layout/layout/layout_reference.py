"""Drawn layouts, and the grammar of layouts read a second time, to compare with."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from relay_layout.errors import LayoutError
from relay_layout.layout import Layout

# No deadline: the machine is shared, and the first example fills caches.
quick = settings(deadline=None, max_examples=100, derandomize=True)


LETTERS = "NCHW"


@st.composite
def layouts(draw: st.DrawFn, letters: str, factors: tuple[int, ...] = (1, 2, 2, 3, 4, 6)) -> Layout:
    """A layout of exactly those axes: any order, up to three blocks anywhere, alignments."""
    parts = list(draw(st.permutations(letters)))
    blocks = draw(st.lists(st.tuples(st.sampled_from(letters), st.sampled_from(factors)), max_size=3))
    split = {letter for letter, _ in blocks}
    aligned = draw(st.sets(st.sampled_from(letters), max_size=1)) - split
    parts = [part + (f"[a={draw(st.sampled_from(factors))}]" if part in aligned else "") for part in parts]
    for letter, factor in blocks:
        parts.insert(draw(st.integers(0, len(parts))), f"{factor}{letter.lower()}")
    return Layout.parse("".join(parts))


@st.composite
def cases(
    draw: st.DrawFn, count: int, smallest: int = 0, largest: int = 7
) -> tuple[list[Layout], str, list[int]]:
    """Layouts of the same axes, a plain order of these, and extents in that order."""
    letters = LETTERS[: draw(st.integers(1, 3))]
    order = "".join(draw(st.permutations(letters)))
    shape = draw(st.lists(st.integers(smallest, largest), min_size=len(letters), max_size=len(letters)))
    return [draw(layouts(letters)) for _ in range(count)], order, shape


def reference_index(layout: Layout, logical: Mapping[str, int]) -> tuple[int, ...]:
    """Physical index by peeling blocks off the logical index from the innermost: the grammar, read again."""
    left = dict(logical)
    index: list[int] = [0] * layout.rank
    for position in reversed(range(layout.rank)):
        name, factor = layout.axes[position]
        if factor is not None:
            left[name], index[position] = divmod(left[name], factor)
    for position, (name, factor) in enumerate(layout.axes):
        if factor is None:
            index[position] = left[name]
    return tuple(index)


def place(logical: np.ndarray, order: str, layout: Layout) -> np.ndarray:
    """The array of ``layout``, one element at a time."""
    result = np.zeros(layout.shape(logical.shape, order), logical.dtype)
    for index in np.ndindex(logical.shape):
        result[reference_index(layout, dict(zip(order, index, strict=True)))] = logical[index]
    return result


def numbered(shape: Sequence[int]) -> np.ndarray:
    """Elements 1, 2, ...: 0 is free for padding."""
    return np.arange(1, prod(shape) + 1).reshape(shape)


class Symbol:
    """An index entry that writes down what is done to it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _write(self, operator: str, other: object) -> "Symbol":
        return Symbol(f"({self.text}{operator}{other.text if isinstance(other, Symbol) else other})")

    def __add__(self, other: object) -> "Symbol":
        return self._write("+", other)

    def __mul__(self, other: object) -> "Symbol":
        return self._write("*", other)

    def __floordiv__(self, other: object) -> "Symbol":
        return self._write("//", other)

    def __mod__(self, other: object) -> "Symbol":
        return self._write("%", other)


def message(call: object, *arguments: object, **options: object) -> str:
    with pytest.raises(LayoutError) as caught:
        call(*arguments, **options)  # type: ignore[operator]
    text = str(caught.value)
    assert "\n" not in text
    return text
