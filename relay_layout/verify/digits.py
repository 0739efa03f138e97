"""Where the elements of a tensor lie, digit by digit.

A digit of an index x is ``x // unit % extent``. The dimensions of a tensor in memory are each a run of
digits of some other index (a dimension of another tensor, or a name), most significant first. NCHW8c over
the dimensions A to D is ``B // 8``, say, in its second dimension and ``B % 8`` in its last. Digits of one
value are left out and neighbours that continue each other are one, so that equal memory of equal shape has
equal digits and nothing else has.
"""

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

import tvm
from tvm_ffi import structural_equal

from relay_layout.layout import Layout


class Symbol:
    """A symbolic extent, compared as an expression."""

    __slots__ = ("expression",)

    def __init__(self, expression: Any) -> None:
        self.expression = expression

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Symbol):
            return False
        left, right = self.expression, other.expression
        return bool(left.same_as(right)) or _provably_equal(left, right)

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        return str(self.expression)


def _provably_equal(left: Any, right: Any) -> bool:
    return bool(structural_equal(left, right) or tvm.sym.Analyzer().can_prove_equal(left, right))


Extent = int | Symbol
Shape = tuple[Extent, ...]


def times(left: Extent, right: Extent) -> Extent:
    """The product of two extents."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if left == 1 or right == 1:
        return right if left == 1 else left
    before = left if isinstance(left, int) else left.expression
    return Symbol(before * (right if isinstance(right, int) else right.expression))


class Digit(NamedTuple):
    """``index of axis // unit % extent``; ``axis`` numbers a dimension or names one."""

    axis: Any
    unit: Extent
    extent: Extent


Dims = tuple[tuple[Digit, ...], ...]
"""The digits in each dimension of a tensor, both outermost first."""


def extents(shape: Sequence[Any]) -> Shape:
    """A shape as this module compares them."""
    return tuple(extent if isinstance(extent, int) else Symbol(extent) for extent in shape)


def plain(shape: Shape) -> Dims:
    """A tensor over its own dimensions."""
    return tuple(() if extent == 1 else (Digit(axis, 1, extent),) for axis, extent in enumerate(shape))


def joined(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Digits in one dimension, in the one way to write them."""
    merged: list[Digit] = []
    for digit in digits:
        if digit.extent == 1:
            continue
        last = merged[-1] if merged else None
        if last is not None and last.axis == digit.axis and last.unit == times(digit.unit, digit.extent):
            merged[-1] = Digit(digit.axis, digit.unit, times(last.extent, digit.extent))
        else:
            merged.append(digit)
    return tuple(merged)


def of_layout(layout: Layout, shape: Shape) -> Dims | None:
    """A tensor of ``shape`` (A is dimension 0) in a layout; None where that has another rank or pads."""
    if len(layout.primal) != len(shape) or layout.alignments:
        return None
    unit = dict.fromkeys(layout.primal, 1)
    found: list[tuple[Digit, ...]] = []
    for part in reversed(layout.axes):
        axis = ord(part.name) - ord("A")
        if part.factor is not None:
            found.append(joined([Digit(axis, unit[part.name], part.factor)]))
            unit[part.name] *= part.factor
        else:
            found.append(())
    for place, part in enumerate(reversed(layout.axes)):
        axis = ord(part.name) - ord("A")
        if part.factor is not None:
            continue
        extent, block = shape[axis], unit[part.name]
        if block > 1 and (not isinstance(extent, int) or extent % block):
            return None
        outer = extent // block if isinstance(extent, int) else extent
        found[place] = joined([Digit(axis, block, outer)])
    # A block of an extent of one is one element of padding at most, and so are its digits.
    return tuple(reversed(found))


def regrouped(dims: Dims, shape: Shape) -> Dims | None:
    """The same elements in the same order as dimensions of ``shape``; None where a digit is cut unevenly."""
    pending = list(joined(digit for dim in dims for digit in dim))[::-1]
    found: list[tuple[Digit, ...]] = []
    while len(found) < len(shape):
        extent = shape[len(found)]
        if pending and isinstance(pending[-1].extent, Symbol) and extent not in (1, pending[-1].extent):
            parts = _parted(pending[-1], shape[len(found) :])
            if parts is not None:
                pending.pop()
                found += parts
                continue
        taken = _taken(pending, extent)
        if taken is None:
            return None
        found.append(joined(taken))
    return None if pending else tuple(found)


def _parted(digit: Digit, shape: Shape) -> list[tuple[Digit, ...]] | None:
    """A symbolic digit as the first extents of ``shape``; None where their product does not reach it."""
    product: Extent = 1
    for count, extent in enumerate(shape, start=1):
        product = times(product, extent)
        if product == digit.extent:
            parts: list[tuple[Digit, ...]] = []
            unit = digit.unit
            for part in reversed(shape[:count]):
                parts.append(joined([Digit(digit.axis, unit, part)]))
                unit = times(unit, part)
            return parts[::-1]
    return None


def _taken(pending: list[Digit], extent: Extent) -> list[Digit] | None:
    """Digits off the end of ``pending`` that make up ``extent``."""
    if isinstance(extent, Symbol):
        return _taken_symbolic(pending, extent)
    taken: list[Digit] = []
    left = extent
    while left != 1:
        if not pending:
            return None
        digit = pending.pop()
        if not isinstance(digit.extent, int) or digit.extent == 0 or left == 0:
            if digit.extent != left:
                return None
            left = 1
        elif left % digit.extent == 0:
            left //= digit.extent
        elif digit.extent % left == 0:
            inner = digit.extent // left
            pending.append(Digit(digit.axis, digit.unit, inner))
            digit, left = Digit(digit.axis, times(digit.unit, inner), left), 1
        else:
            return None
        taken.append(digit)
    return taken


def _taken_symbolic(pending: list[Digit], extent: Symbol) -> list[Digit] | None:
    taken: list[Digit] = []
    product: Extent = 1
    while pending:
        taken.append(pending.pop())
        product = times(product, taken[-1].extent)
        if product == extent:
            return taken
    return None


Run = tuple[Extent, Extent, Any, Extent]
"""(unit, extent) of digits of one axis, and the (axis, unit) that they are."""


def over(dims: Dims, frame: Dims) -> Dims | None:
    """``dims`` in terms of the dimensions of ``frame``, both being digits of the same axes."""
    table: dict[Any, list[Run]] = {}
    for place, dim in enumerate(frame):
        unit: Extent = 1
        for digit in reversed(dim):
            table.setdefault(digit.axis, []).append((digit.unit, digit.extent, place, unit))
            unit = times(unit, digit.extent)
    for runs in table.values():
        if len(runs) > 1:
            runs.sort(key=lambda run: -run[0] if isinstance(run[0], int) else 0)
    return _translated(dims, table)


def through(dims: Dims, frame: Dims) -> Dims | None:
    """``dims``, which are digits of the dimensions of ``frame``, in terms of what those are digits of."""
    table: dict[Any, list[Run]] = {}
    for place, dim in enumerate(frame):
        unit: Extent = 1
        for digit in reversed(dim):
            table.setdefault(place, []).append((unit, digit.extent, digit.axis, digit.unit))
            unit = times(unit, digit.extent)
        table.get(place, []).reverse()
    return _translated(dims, table)


def _translated(dims: Dims, table: Mapping[Any, Sequence[Run]]) -> Dims | None:
    found = []
    for dim in dims:
        pieces: list[Digit] = []
        for digit in dim:
            cut = _cut(digit, table.get(digit.axis, ()))
            if cut is None:
                return None
            pieces += cut
        found.append(joined(pieces))
    return tuple(found)


def _cut(digit: Digit, runs: Sequence[Run]) -> list[Digit] | None:
    """One digit in terms of the runs that cover it; None where they do not, or not evenly."""
    for first, extent, axis, unit in runs:
        if first == digit.unit and extent == digit.extent:
            return [Digit(axis, unit, extent)]
    low, extent = digit.unit, digit.extent
    known = [
        (first, length, axis, unit)
        for first, length, axis, unit in runs
        if isinstance(first, int) and isinstance(length, int)
    ]
    if not isinstance(low, int) or not isinstance(extent, int) or len(known) < len(runs):
        return _cut_symbolic(digit, runs)
    high, covered = low * extent, 1
    pieces = []
    for first, length, axis, unit in known:
        start, end = max(first, low), min(first * length, high)
        if start >= end:
            continue
        if end % start or start % first or (first * length) % end:
            return None
        pieces.append(Digit(axis, times(unit, start // first), end // start))
        covered *= end // start
    return pieces if covered == extent else None


def _cut_symbolic(digit: Digit, runs: Sequence[Run]) -> list[Digit] | None:
    """Neighbouring runs that make up a digit of symbolic unit or extent."""
    pieces: list[Digit] = []
    unit: Extent = digit.unit
    covered: Extent = 1
    for first, extent, axis, own in reversed(runs):
        if first == unit and covered != digit.extent:
            pieces.append(Digit(axis, own, extent))
            unit, covered = times(unit, extent), times(covered, extent)
    return pieces[::-1] if pieces and covered == digit.extent else None


def covers(dims: Dims, shape: Shape) -> bool:
    """Whether every element of a tensor of ``shape`` is in exactly one place of ``dims``."""
    waiting: dict[Any, list[Digit]] = {}
    for dim in dims:
        for digit in dim:
            waiting.setdefault(digit.axis, []).append(digit)
    for axis, extent in enumerate(shape):
        reached: Extent = 1
        digits = waiting.pop(axis, [])
        while digits:
            following = next((digit for digit in digits if digit.unit == reached), None)
            if following is None:
                return False
            digits.remove(following)
            reached = times(reached, following.extent)
        if reached != extent:
            return False
    return not waiting


def shape_of_dims(dims: Dims) -> Shape:
    """The extents of dimensions."""
    found: list[Extent] = []
    for dim in dims:
        product: Extent = 1
        for digit in dim:
            product = times(product, digit.extent)
        found.append(product)
    return tuple(found)


def describe(dims: Dims, shape: Shape) -> str:
    """``dims`` over the dimensions of a tensor of ``shape`` as a layout text, as near as there is one."""
    units = [ascii_uppercase[axis] for axis, extent in enumerate(shape) if extent == 1][::-1]
    text = ""
    for dim in dims:
        parts = [_letter(digit, shape) for digit in dim]
        if not parts:
            text += units.pop() if units else "1"
        else:
            text += parts[0] if len(parts) == 1 else f"({' '.join(parts)})"
    return text or "scalar"


def _letter(digit: Digit, shape: Shape) -> str:
    letter = ascii_uppercase[digit.axis]
    extent = shape[digit.axis]
    if times(digit.unit, digit.extent) == extent:
        return letter
    return f"{digit.extent}{letter.lower()}"
