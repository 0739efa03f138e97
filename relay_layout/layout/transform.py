"""From one layout to another: index maps, arrays moved, and layouts that are the same memory.

``dim_order`` is that of ExecuTorch and PyTorch: the axes of a plain layout, outermost in memory first, as
numbers of the dimensions of another.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relay_layout.errors import LayoutError
from relay_layout.layout.value import Layout, known_extent, layout_of_parts, letters_of, show_shape


class LayoutTransform(NamedTuple):
    """Where each element of a tensor in layout ``src`` goes in layout ``dst``; see :func:`index_map`.

    The map goes through the logical index, so that it knows no shape and padding has indices as well.
    """

    src: Layout
    dst: Layout

    def __str__(self) -> str:
        return f"{self.src} -> {self.dst}"

    def map_index(self, index: Sequence[Any]) -> tuple[Any, ...]:
        """Physical index in ``dst`` of the element with physical ``index`` in ``src``.

        The entries may be any objects with ``+``, ``*``, ``//`` and ``%`` by an int (TVM expressions for
        one); no operation is applied that changes nothing. A dimension with only one index is given as 0.
        LayoutError for an index of another rank.
        """
        if len(index) != self.src.rank:
            raise LayoutError(
                f"index {show_shape(index)}: it has {len(index)} entries but layout '{self.src}' has "
                f"{self.src.rank} dimensions; give one entry per dimension"
            )
        return tuple(expression.evaluate(index) for expression in _expressions(self.src, self.dst))

    def inverse(self) -> "LayoutTransform":
        """The map back, from ``dst`` to ``src``."""
        return LayoutTransform(self.dst, self.src)

    @property
    def is_identity(self) -> bool:
        """Whether nothing is to be done. False when only an alignment differs: the buffer then changes."""
        return self.src == self.dst

    @property
    def is_permutation(self) -> bool:
        """Whether a transposition of the physical dimensions does it: equal blocks and equal alignments."""
        return sorted(self.src.alignments) == sorted(self.dst.alignments) and all(
            [digit.factor for digit in digits] == [digit.factor for digit in _digits(self.dst)[name]]
            for name, digits in _digits(self.src).items()
        )

    @property
    def permutation(self) -> tuple[int, ...]:
        """For ``numpy.transpose`` or ``permute_dims``: dimension k of ``dst`` is dimension [k] of ``src``.

        Raises LayoutError unless :attr:`is_permutation`.
        """
        if not self.is_permutation:
            raise LayoutError(f"'{self}': not a permutation of dimensions; use the index map or apply")
        goes_to: dict[int, int] = {}
        for name, digits in _digits(self.src).items():
            for source, target in zip(digits, _digits(self.dst)[name], strict=True):
                goes_to[target.position] = source.position
        return tuple(goes_to[position] for position in range(len(self.dst.axes)))


def index_map(src: str | Layout, dst: str | Layout) -> LayoutTransform:
    """How a physical index in ``src`` becomes one in ``dst``. The two must have the same primal axes."""
    return LayoutTransform(*_same_axes(src, dst))


def dim_order(layout: str | Layout, over: str | Layout) -> tuple[int, ...]:
    """Dimensions of the plain layout ``over`` from outermost to innermost in the memory of ``layout``.

    ``NHWC`` over ``NCHW`` is ``(0, 2, 3, 1)``. Raises LayoutError if either has blocks or alignments,
    which a dim_order cannot say, or if their axes differ.
    """
    transform = index_map(over, layout)
    for side in transform:
        _require_plain_for_dim_order(side)
    return transform.permutation


def from_dim_order(order: Sequence[int], over: str | Layout) -> Layout:
    """The plain layout whose :func:`dim_order` over ``over`` is ``order``; LayoutError for no order."""
    base = Layout.of(over)
    _require_plain_for_dim_order(base)
    if sorted(order) != list(range(base.rank)):
        raise LayoutError(
            f"dim_order {show_shape(order)}: not an order of the dimensions of '{base}'; "
            f"write each of 0 to {base.rank - 1} once"
        )
    return layout_of_parts(tuple(base.axes[position] for position in order), ())


def _require_plain_for_dim_order(layout: Layout) -> None:
    layout.require_axes()
    if not layout.is_plain:
        raise LayoutError(f"layout '{layout}': a dim_order has no blocks or alignments; use a plain layout")


def apply(
    array: npt.NDArray[Any],
    src: str | Layout,
    dst: str | Layout,
    *,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """``array``, which is in layout ``src``, as a C-contiguous array in layout ``dst``.

    Padding that ``array`` has counts as data; what ``dst`` adds is zeros. The result is ``out``, a
    C-contiguous array of its shape and dtype, or else may share memory with ``array`` when no element moves.

    Raises LayoutError if the primal axes differ, or the array does not fit ``src``.
    """
    source, target = _same_axes(src, dst)
    order = source.primal_layout
    held = source.logical_shape(array.shape, order)
    target_shape = target.shape(held, order)
    padded = target.logical_shape(target_shape, order)
    if held == padded:
        moves = _single_transpose(source, target)
        if moves is not None:
            digits, permutation = moves
            split = array.reshape([_digit_extent(digit, array.shape) for digit in digits])
            return _stored(split.transpose(permutation), target_shape, out)

    # Through the plain tensor: join the blocks of src, pad, split into the blocks of dst.
    names = target.primal
    places = [order.primal.index(name) for name in names]
    joined = array.transpose([digit.position for name in names for digit in _digits(source)[name]])
    logical = joined.reshape([held[place] for place in places])
    if held != padded:
        room = np.zeros([padded[place] for place in places], array.dtype)
        room[tuple(map(slice, logical.shape))] = logical
        logical = room
    positions = [digit.position for name in names for digit in _digits(target)[name]]
    split = logical.reshape([target_shape[position] for position in positions])
    return _stored(split.transpose(np.argsort(positions)), target_shape, out)


def _stored(moved: np.ndarray, shape: tuple[int, ...], out: np.ndarray | None) -> np.ndarray:
    """The elements of ``moved`` in order, in that shape; in ``out`` without a copy in between."""
    if out is None:
        return np.asarray(moved.reshape(shape), order="C")
    if out.shape != shape or not out.flags.c_contiguous:
        raise LayoutError(f"out {show_shape(out.shape)}: give a C-contiguous array of {show_shape(shape)}")
    out.reshape(moved.shape)[...] = moved
    return out


def equivalent_memory(
    src: str | Layout, dst: str | Layout, primal_shape: Sequence[object], primal_order: str | Layout
) -> bool:
    """Whether a tensor of that shape is the same buffer in both layouts, so that no transform is needed.

    That is: buffers of equal length, and every element at the same offset; then also the padding, if any,
    is in the same places. The answer is exact. With symbolic extents it is for all their values at once.
    Arguments and errors are those of :meth:`Layout.shape`, for both layouts.
    """
    source, target = _same_axes(src, dst)
    extents = source.extents(primal_shape, primal_order)
    source_memory, target_memory = (
        _memory(layout, extents, layout.physical_shape(extents)) for layout in (source, target)
    )
    # Never compare a symbolic extent: its == may build an expression.
    no_elements = any(known_extent(extent) == 0 for extent in extents.values())
    return no_elements or source_memory == target_memory


def _same_axes(src: str | Layout, dst: str | Layout) -> tuple[Layout, Layout]:
    source, target = Layout.of(src), Layout.of(dst)
    for side in (source, target):
        side.require_axes()
    if set(source.primal) != set(target.primal):
        raise LayoutError(
            f"layouts '{source}' and '{target}': their axes differ, "
            f"{letters_of(source)} and {letters_of(target)}; use the same capital letters in both"
        )
    return source, target


class _Digit(NamedTuple):
    """A physical dimension as a digit of a logical index x: ``x // unit % factor``, None: no limit."""

    position: int
    unit: int
    factor: int | None

    @property
    def end(self) -> float:
        """Unit of the next digit up; infinite for the primal part, so that it compares with any unit."""
        return float("inf") if self.factor is None else self.unit * self.factor


@lru_cache(maxsize=4096)
def _digits(layout: Layout) -> dict[str, tuple[_Digit, ...]]:
    """The digits of each axis, the primal part first and then the blocks from outer to inner."""
    digits: dict[str, list[_Digit]] = {name: [] for name in layout.primal}
    unit = dict.fromkeys(layout.primal, 1)
    for position, axis in reversed(list(enumerate(layout.axes))):
        if axis.factor is not None:
            digits[axis.name].append(_Digit(position, unit[axis.name], axis.factor))
            unit[axis.name] *= axis.factor
    for position, axis in enumerate(layout.axes):
        # The primal part is the most significant wherever it is written.
        if axis.factor is None:
            digits[axis.name].append(_Digit(position, unit[axis.name], None))
    return {name: tuple(reversed(parts)) for name, parts in digits.items()}


class _Term(NamedTuple):
    """``index[position] // divide % modulo * multiply``, modulo 0 meaning none."""

    position: int
    divide: int
    modulo: int
    multiply: int


class _Expression(NamedTuple):
    """``(sum of terms) // divide % modulo``: one entry of the index in the target layout."""

    terms: tuple[_Term, ...]
    divide: int = 1
    modulo: int = 0

    def evaluate(self, index: Sequence[Any]) -> Any:
        total: Any = 0
        for number, term in enumerate(self.terms):
            value = _divide_modulo(index[term.position], term.divide, term.modulo)
            if term.multiply != 1:
                value = value * term.multiply
            total = total + value if number else value
        return _divide_modulo(total, self.divide, self.modulo)


def _divide_modulo(value: Any, divide: int, modulo: int) -> Any:
    if divide != 1:
        value = value // divide
    return value % modulo if modulo else value


@lru_cache(maxsize=4096)
def _expressions(source: Layout, target: Layout) -> tuple[_Expression, ...]:
    """One expression per dimension of ``target``, as simple as the digits of both layouts allow."""
    expressions: dict[int, _Expression] = {}
    for name, targets in _digits(target).items():
        sources = [digit for digit in _digits(source)[name] if digit.factor != 1]
        for digit in targets:
            if digit.factor == 1:
                expression = _Expression(())
            elif _cuts_cleanly(sources, digit.unit) and _cuts_cleanly(sources, digit.end):
                # Each source digit gives its share: no need to rebuild the logical index first.
                overlapping = [part for part in sources if part.unit < digit.end and part.end > digit.unit]
                expression = _Expression(tuple(_share(part, digit) for part in overlapping))
            else:
                whole = tuple(_Term(part.position, 1, 0, part.unit) for part in sources)
                expression = _Expression(whole, digit.unit, digit.factor or 0)
            expressions[digit.position] = expression
    return tuple(expressions[position] for position in range(len(target.axes)))


def _cuts_cleanly(digits: Sequence[_Digit], unit: float) -> bool:
    """Whether ``x // unit`` is a sum over the digits of x, none of them carrying into the next."""
    return all(
        unit % digit.unit == 0 and (digit.factor is None or digit.end % unit == 0)
        for digit in digits
        if digit.unit < unit < digit.end
    )


def _share(source: _Digit, target: _Digit) -> _Term:
    """What ``source`` contributes to ``target``, which overlaps it and cuts it cleanly."""
    low = max(source.unit, target.unit)
    modulo = int(target.end) // low if target.end < source.end else 0
    return _Term(source.position, low // source.unit, modulo, low // target.unit)


class _Split(NamedTuple):
    """Part of a physical dimension: ``index // divide``, up to ``factor``; None: what is left of it."""

    position: int
    divide: int
    factor: int | None


def _digit_extent(split: _Split, shape: Sequence[int]) -> int:
    return shape[split.position] // split.divide if split.factor is None else split.factor


def _cut(digit: _Digit, units: Sequence[int]) -> Iterator[tuple[int, _Split]]:
    """The parts of a digit between those of ``units`` that lie inside it, each with the unit it begins at."""
    if digit.factor == 1:
        return
    inside = [unit for unit in units if digit.unit <= unit < digit.end]
    for unit, end in zip(inside, [*inside[1:], digit.end], strict=True):
        factor = None if end == float("inf") else int(end) // unit
        yield unit, _Split(digit.position, unit // digit.unit, factor)


@lru_cache(maxsize=4096)
def _single_transpose(source: Layout, target: Layout) -> tuple[tuple[_Split, ...], tuple[int, ...]] | None:
    """How to split the dimensions of ``source``, and the order of the parts in ``target``.

    Joining neighbours then gives the shape of ``target``, so that the data moves once. None when the blocks
    do not nest (6 and 4), or when the parts are more than the dimensions that numpy can handle.
    """
    units: dict[str, list[int]] = {}
    for name, digits in _digits(source).items():
        cuts = sorted({digit.unit for digit in (*digits, *_digits(target)[name])})
        if any(upper % lower for lower, upper in pairwise(cuts)):
            return None
        units[name] = cuts

    def parts(layout: Layout) -> list[tuple[str, int, _Split]]:
        found = [
            (name, unit, split)
            for name, digits in _digits(layout).items()
            for digit in digits
            for unit, split in _cut(digit, units[name])
        ]
        # Outermost first; within a dimension the larger unit is the outer one.
        return sorted(found, key=lambda part: (part[2].position, -part[1]))

    before, after = parts(source), parts(target)
    if len(before) > 32:
        return None
    place = {(name, unit): number for number, (name, unit, _) in enumerate(before)}
    return tuple(split for _, _, split in before), tuple(place[name, unit] for name, unit, _ in after)


_Extent = tuple[int, frozenset[str]]
"""A product of an int and of symbolic extents, these named by their axes."""


def _times(product: _Extent, axis: str, extent: object) -> _Extent:
    number, symbols = product
    known = known_extent(extent)
    return (number, symbols | {axis}) if known is None else (number * known, symbols)


def _memory(
    layout: Layout, extents: Mapping[str, object], shape: Sequence[object]
) -> tuple[_Extent, dict[str, list[tuple[int, _Extent]]]]:
    """The length of the buffer, and per axis the (unit, stride) pairs that give the offset of an index.

    The offset is a sum over the axes, so that two layouts agree on all elements just when they agree on each
    axis alone. On one axis, a digit that never exceeds 0 for its extent and a digit whose stride continues
    the one below are left out; what remains is determined by the offsets: the first unit at which they leave
    the line so far, the stride there, and so on. Hence equal pairs are not just sufficient but necessary.
    """
    length: _Extent = (1, frozenset())
    strides: list[_Extent] = [length] * len(shape)
    for position in reversed(range(len(shape))):
        strides[position] = length
        length = _times(length, layout.axes[position].name, shape[position])
    pairs: dict[str, list[tuple[int, _Extent]]] = {}
    for name, digits in _digits(layout).items():
        extent = known_extent(extents[name])
        kept: list[tuple[int, _Extent]] = []
        for digit in reversed(digits):
            if digit.factor == 1 or (extent is not None and digit.unit >= extent):
                continue
            stride = strides[digit.position]
            if kept:
                unit, (number, symbols) = kept[-1]
                if stride == (number * (digit.unit // unit), symbols):
                    continue
            kept.append((digit.unit, stride))
        pairs[name] = kept
    return length, pairs
