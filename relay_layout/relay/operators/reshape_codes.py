"""The special entries of a new shape: 0, -1, -2, -3 and -4, to extents and back.

0 takes the extent at the same place, -1 what is left over, -2 all extents that follow, -3 the product of the
next two, and -4 splits the next one into the two entries after it, of which one may be -1.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import sym, tirx

from relay_layout.errors import ModelError
from relay_layout.ir import Extent, as_extent, is_static, same_extent
from relay_layout.relay.operators.axis_arguments import MOST_DIMENSIONS

_REST = -1


def new_shape(shape: Sequence[Extent], codes: Sequence[int], *, keep_zeros: bool = False) -> list[Extent]:
    """The extents that ``codes`` mean for a tensor of ``shape``; ``keep_zeros`` makes 0 an extent.

    ModelError for codes that do not fit the shape, or that change the number of elements.
    """
    reading = _Reading(shape, codes, keep_zeros)
    result = reading.run()
    if is_static((*shape, *result)) and prod(result) != prod(shape):
        raise ModelError(f"{_text(shape)} and {_text(result)} do not have equally many elements")
    return result


def reversed_shape(shape: Sequence[Extent], codes: Sequence[int]) -> list[Extent]:
    """:func:`new_shape` read from right to left."""
    return new_shape(shape[::-1], codes[::-1])[::-1]


def codes_of(shape: Sequence[Extent], result: Sequence[Extent]) -> tuple[tuple[int, ...], bool] | None:
    """Codes that give ``result``, and whether they keep zeros; None where codes cannot say it."""
    if is_static(result):
        return tuple(result), 0 in result
    codes: list[int] = []
    for position, extent in enumerate(result):
        if isinstance(extent, int):
            if extent == 0:
                return None
            codes.append(extent)
        else:
            same = position < len(shape) and same_extent(shape[position], extent)
            codes.append(0 if same else _REST)
    if codes.count(_REST) > 1:
        return None
    if _REST in codes:
        again = new_shape(shape, codes)
        analyzer = sym.Analyzer()
        if not analyzer.can_prove_equal(again[codes.index(_REST)], result[codes.index(_REST)]):
            return None
    return tuple(codes), False


class _Reading:
    """Codes read from left to right, and which extents they used up on either side."""

    def __init__(self, shape: Sequence[Extent], codes: Sequence[int], keep_zeros: bool) -> None:
        self.shape = list(shape)
        self.codes = list(codes)
        self.shown = f"newshape {_text(codes[:20])}"
        self.keep_zeros = keep_zeros
        self.source = 0
        self.result: list[Extent] = []
        self.copied: set[int] = set()
        self.settled: set[int] = set()
        self.rest: int | None = None

    def run(self) -> list[Extent]:
        position = 0
        while position < len(self.codes):
            position += self._read(position)
            if len(self.result) > MOST_DIMENSIONS:
                raise ModelError(f"the new shape has over {MOST_DIMENSIONS} dimensions")
        if self.rest is not None:
            self.result[self.rest] = self._left_over()
        return self.result

    def _read(self, position: int) -> int:
        """Read the code at ``position``; how many entries it takes."""
        code = self.codes[position]
        if code > 0 or (code == 0 and self.keep_zeros):
            self.result.append(code)
            self.source += 1
        elif code == 0:
            self._settle(self._take())
        elif code == _REST:
            if self.rest is not None:
                raise ModelError(f"{self.shown} leaves more than one extent open")
            self.rest = len(self.result)
            self.result.append(1)
            self.source += 1
        elif code == -2:
            while self.source < len(self.shape):
                self._settle(self._take())
        elif code == -3:
            first = self._take()
            self._settle(first * self._take())
        elif code == -4:
            self._split(position)
            return 3
        else:
            raise ModelError(f"{self.shown} has {code}; from -4 on entries have a meaning")
        return 1

    def _split(self, position: int) -> None:
        whole = self._take()
        parts = self.codes[position + 1 : position + 3]
        if len(parts) < 2 or parts.count(-1) == 2 or any(part < 1 and part != -1 for part in parts):
            raise ModelError(f"{self.shown}: -4 needs two parts after it, of which one may be -1")
        known = prod(part for part in parts if part != -1)
        if isinstance(whole, int) and (whole % known or (-1 not in parts and whole != known)):
            raise ModelError(f"{self.shown} does not split {whole} evenly")
        for part in parts:
            self._settle(divided(whole, known) if part == -1 else part)

    def _take(self) -> Extent:
        if self.source >= len(self.shape):
            raise ModelError(f"{self.shown} takes more extents than {_text(self.shape)} has")
        self.copied.add(self.source)
        self.source += 1
        return self.shape[self.source - 1]

    def _settle(self, extent: Extent) -> None:
        self.settled.add(len(self.result))
        self.result.append(extent)

    def _left_over(self) -> Extent:
        whole: Any = prod_of(extent for at, extent in enumerate(self.shape) if at not in self.copied)
        known: Any = prod_of(extent for at, extent in enumerate(self.result) if at not in self.settled)
        if isinstance(known, int) and known == 0:
            raise ModelError(f"{self.shown} leaves an extent open beside one of 0")
        if isinstance(whole, int) and isinstance(known, int) and whole % known:
            raise ModelError(f"{self.shown} does not divide the elements of {_text(self.shape)}")
        return divided(whole, known)


def prod_of(extents: Any) -> Extent:
    """The product of extents, an int where all are."""
    product: Any = 1
    for extent in extents:
        product = extent if isinstance(product, int) and product == 1 else product * extent
    return product


def divided(whole: Extent, known: Extent) -> Extent:
    """A quotient that has no rest."""
    if isinstance(whole, int) and isinstance(known, int):
        return whole // known
    return as_extent(sym.Analyzer().simplify(tirx.floordiv(whole, known)))


def _text(shape: Sequence[Extent]) -> str:
    return f"[{', '.join(map(str, shape))}]"
