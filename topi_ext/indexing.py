"""From an element's coordinates on the named axes of a layout to its index in memory.

A coordinate is either one expression or, where a loop nest already walks an axis as blocks, a
:class:`BlockedCoordinate`. Handing over the pieces keeps divisions out of the index expressions
whenever tensor and loop nest use the same block.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

Expression = Any
"""An int, a ``tvm.tirx`` expression, or a variable."""


@dataclass(frozen=True)
class BlockedCoordinate:
    """The position ``outer * block + inner`` on an axis."""

    outer: Expression
    inner: Expression
    block: int

    @property
    def flat(self) -> Expression:
        return self.outer * self.block + self.inner


Coordinate = Expression | BlockedCoordinate


@cache
def physical_axes(layout: str) -> tuple[tuple[str, int], ...]:
    """The dimensions of ``layout`` in memory order as ``(axis, factor)``; factor 0 is the outer part.

    >>> physical_axes("NCHW16c")
    (('N', 0), ('C', 0), ('H', 0), ('W', 0), ('C', 16))
    """
    parts = re.findall(r"([A-Z])|(\d+)([a-z])", layout)
    return tuple((outer, 0) if outer else (inner.upper(), int(factor)) for outer, factor, inner in parts)


def block_of(layout: str, axis: str) -> int:
    """Elements of ``axis`` in one block of ``layout``; 1 where the axis is not blocked."""
    block = 1
    for name, factor in physical_axes(layout):
        if name == axis and factor:
            block *= factor
    return block


WORD_BYTES = 4
"""Bytes of a word, of whose elements one instruction makes a dot product."""

HALF_WORD = WORD_BYTES // 2


def word_axis(kernel_layout: str, elements: int) -> str:
    """I or W where a kernel layout stores a word of so many elements along it innermost; "" elsewhere.

    Words of four bytes may be apart in :func:`halves <in_halves>`.
    """
    axis, factor = physical_axes(kernel_layout)[-1]
    if axis not in "IW" or not factor:
        return ""
    apart = elements == WORD_BYTES and factor == HALF_WORD and _lies_apart(kernel_layout)
    return axis if factor == elements > 1 or apart else ""


def in_halves(kernel_layout: str, axis: str) -> str:
    """``kernel_layout`` with words of bytes along ``axis`` taken apart: the lower halves of the innermost run
    of O, then the upper ones, such as "OIHW2i8o2i" of "OIHW8o".
    """
    parts = list(physical_axes(kernel_layout))
    place = max(place for place, (name, _) in enumerate(parts) if name == "O")
    half = (axis, HALF_WORD)
    return layout_of([*parts[:place], half, *parts[place:], half])


def in_pairs(kernel_layout: str, word: int) -> str:
    """``kernel_layout`` with two words of so many elements along I innermost: "OIHW8o2i4i" of "OIHW8o"."""
    return layout_of([*physical_axes(kernel_layout), ("I", 2), ("I", word)])


def lies_in_pairs(kernel_layout: str) -> bool:
    """Is it a layout of :func:`in_pairs`?"""
    (axis, words), (last, word) = physical_axes(kernel_layout)[-2:]
    return axis == last == "I" and words == 2 and word > 0


def _lies_apart(kernel_layout: str) -> bool:
    """Is there half a word on both sides of the innermost run of O?"""
    *_, before, middle, last = ("", 0), ("", 0), *physical_axes(kernel_layout)
    return before == last and middle[0] == "O"


def layout_of(parts: Sequence[tuple[str, int]]) -> str:
    """The layout of such :func:`physical_axes`."""
    return "".join(f"{factor}{name.lower()}" if factor else name for name, factor in parts)


def physical_index(layout: str, coordinates: Mapping[str, Coordinate]) -> list[Expression]:
    """The index into a tensor stored as ``layout`` of the element at ``coordinates``."""
    remaining = {name: block_of(layout, name) for name, _ in physical_axes(layout)}
    index: list[Expression] = []
    for name, factor in physical_axes(layout):
        coordinate = coordinates[name]
        whole = block_of(layout, name)
        if isinstance(coordinate, BlockedCoordinate):
            if coordinate.block == whole and whole == factor:
                index.append(coordinate.inner)
                continue
            if coordinate.block == whole and not factor:
                index.append(coordinate.outer)
                continue
            # Whole blocks do not change the place within one.
            coordinate = coordinate.inner if coordinate.block == whole and factor else coordinate.flat
        if not factor:
            index.append(coordinate if whole == 1 else coordinate // whole)
            continue
        stride = remaining[name] // factor
        within = coordinate if remaining[name] == whole and whole == 1 else coordinate % remaining[name]
        index.append(within if stride == 1 else within // stride)
        remaining[name] = stride
    return index


def logical_extent(layout: str, shape: Sequence[Any], axis: str) -> Any:
    """The extent of ``axis``, blocks included, of a tensor of ``shape`` stored as ``layout``."""
    extent: Any = 1
    for (name, _), size in zip(physical_axes(layout), shape, strict=True):
        if name == axis:
            extent = extent * size
    return extent
