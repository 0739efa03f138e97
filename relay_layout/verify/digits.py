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

from relay_layout.layout import Layout
from relay_layout.verify.symbols import Extent, Shape, ratio, times


class Digit(NamedTuple):
    """``index of axis // unit % extent``; ``axis`` numbers a dimension or names one."""

    axis: Any
    unit: Extent
    extent: Extent


Dims = tuple[tuple[Digit, ...], ...]
"""The digits in each dimension of a tensor, both outermost first."""


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
    for extent in shape:
        taken = _taken(pending, extent)
        if taken is None:
            return None
        found.append(joined(taken))
    return None if pending else tuple(found)


def _taken(pending: list[Digit], extent: Extent) -> list[Digit] | None:
    """Digits off the end of ``pending`` that make up ``extent``."""
    taken: list[Digit] = []
    left = extent
    while left != 1:
        if not pending:
            return None
        digit = pending.pop()
        if digit.extent == left:
            return [*taken, digit]
        rest, inner = ratio(left, digit.extent), ratio(digit.extent, left)
        if rest is not None:
            left = rest
        elif inner is not None:
            pending.append(Digit(digit.axis, digit.unit, inner))
            return [*taken, Digit(digit.axis, times(digit.unit, inner), left)]
        else:
            return None
        taken.append(digit)
    return taken


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
    return _translated(dims, table)


def through(dims: Dims, frame: Dims) -> Dims | None:
    """``dims``, digits of the dimensions of ``frame``, as digits of what those dimensions are digits of."""
    table: dict[Any, list[Run]] = {}
    for place, dim in enumerate(frame):
        unit: Extent = 1
        for digit in reversed(dim):
            table.setdefault(place, []).append((unit, digit.extent, digit.axis, digit.unit))
            unit = times(unit, digit.extent)
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
    pieces: list[Digit] = []
    low: Extent = digit.unit
    covered: Extent = 1
    while covered != digit.extent:
        found = (_piece(run, low, digit.extent, covered) for run in runs)
        piece = next((piece for piece in found if piece is not None), None)
        # Each run gives no more than its extent, so that this ends.
        if piece is None:
            return None
        pieces.append(piece)
        low, covered = times(low, piece.extent), times(covered, piece.extent)
    return pieces[::-1]


def _piece(run: Run, low: Extent, extent: Extent, covered: Extent) -> Digit | None:
    """What a run has from ``low`` up, as far as ``covered`` lacks of ``extent``; None if nothing."""
    first, length, axis, unit = run
    below = ratio(low, first)
    above = ratio(length, below) if below is not None else None
    if below is None or above is None or above == 1:
        return None
    lacking = ratio(extent, covered)
    if lacking is not None and ratio(lacking, above) is None:
        if ratio(above, lacking) is None:
            return None
        above = lacking
    return Digit(axis, times(unit, below), above)


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
