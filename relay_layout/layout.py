"""Layouts: how the elements of a tensor are ordered in memory, as one immutable value.

The text of a layout, read left to right from the outermost dimension in memory to the innermost:

- A capital letter is a primal axis, written at most once: ``NCHW``, ``OIHW``, ``NDHWC``, ``ABCD``.
- A number and a small letter is a block split off that letter's axis: in ``NCHW16c`` the channel ``x``
  lies at ``C = x // 16``, ``c = x % 16``. An axis may be split again; the blocks are then nested in the
  order written, so that ``OIHW4i16o4i`` has blocks of 16 of ``i``, each 4 blocks of 4.
  An extent that the block does not divide is padded.
- ``[a=32]`` after a capital letter pads that axis to a multiple of 32 elements and reorders nothing:
  ``NC[a=32]HW``. An axis has a block or an alignment, not both.
- ``*``, alone, is any layout.

Blocks are written as in TVM's ``Layout``. Alignment and ``*`` are from Glow's layout strings, where ``*`` may
also stand for a single dimension; here it may not. ``dim_order`` is that of ExecuTorch and PyTorch: the axes
of a plain layout, outermost in memory first, as numbers of the dimensions of another. The grammar in full is
in :mod:`relay_layout.layout_grammar`.

Throughout, *physical* means as in memory, blocks being dimensions of their own, and *primal* or *logical*
means one dimension per capital letter, in the order of a plain layout that the caller names
(``primal_order``). Extents and paddings count elements. A dimension need not be an int where it is only
passed on, so that symbolic shapes can be used.
"""

import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from relay_layout import layout_grammar
from relay_layout.errors import LayoutError
from relay_layout.layout_grammar import Axis

Dimension = TypeVar("Dimension")
"""An extent: an int, or any other object (a symbolic variable) where it is only passed on."""

ANY_TEXT = "*"
_NEEDS_KNOWN = "a block or alignment needs an int"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Layout:
    """A layout. Equality and hash go by the canonical text, ``str(layout)``.

    Make one with :meth:`parse`, :meth:`of`, :meth:`generic` or :func:`from_dim_order`; the constructor
    checks nothing.
    """

    axes: tuple[Axis, ...]
    """Physical dimensions, outermost first; empty for ``*`` and for a scalar."""
    alignments: tuple[tuple[str, int], ...] = ()
    """(axis, elements) for each aligned axis, in the order of the text."""
    is_any: bool = False
    """Whether this is ``*``."""
    primal: tuple[str, ...] = field(init=False)
    """Capital letters in the order of the text: ``('N', 'C', 'H', 'W')`` of ``NCHW16c``."""
    _text: str = field(init=False)
    # Looked up for every shape the solver asks about, so not counted each time.
    _blocks: dict[str, int] = field(init=False)
    _alignments: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        primal = tuple(axis.name for axis in self.axes if axis.factor is None)
        blocks = dict.fromkeys(primal, 1)
        for axis in self.axes:
            blocks[axis.name] *= axis.factor or 1
        object.__setattr__(self, "primal", primal)
        object.__setattr__(self, "_blocks", blocks)
        object.__setattr__(self, "_alignments", dict.fromkeys(primal, 1) | dict(self.alignments))
        text = ANY_TEXT if self.is_any else layout_grammar.write(self.axes, self.alignments)
        object.__setattr__(self, "_text", text)

    @staticmethod
    def parse(text: str) -> "Layout":
        """The layout that ``text`` spells.

        Raises:
            LayoutError: if it spells none; says what is wrong, at which position, and what to write.
        """
        if not isinstance(text, str):
            raise LayoutError(f"layout {text!r}: not a text; write a layout such as 'NCHW'")
        return _parse(text)

    @staticmethod
    def of(layout: "str | Layout") -> "Layout":
        """``layout`` itself, or parsed when it is a text."""
        return layout if isinstance(layout, Layout) else Layout.parse(layout)

    @staticmethod
    def generic(rank: int) -> "Layout":
        """The plain layout of a tensor about whose axes nothing is known: ``ABCD`` for rank 4.

        Rank 0 gives the layout of a scalar, whose text is empty and which no text spells.
        """
        if not 0 <= rank <= len(string.ascii_uppercase):
            raise LayoutError(
                f"rank {rank}: no letters for it; a layout has 0 to {len(string.ascii_uppercase)} axes"
            )
        return _from_parts(tuple(Axis(letter) for letter in string.ascii_uppercase[:rank]), ())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._text == other._text if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Layout({self._text!r})"

    @property
    def rank(self) -> int:
        """Number of physical dimensions. Raises LayoutError for ``*``."""
        self._require_axes()
        return len(self.axes)

    @property
    def primal_layout(self) -> "Layout":
        """The plain layout with the same order of primal axes: ``NCHW`` of ``NCHW16c`` or ``NC[a=32]HW``."""
        return self if self.is_any else _from_parts(tuple(map(Axis, self.primal)), ())

    @property
    def without_blocks(self) -> "Layout":
        """This layout less its blocks; unlike :attr:`primal_layout` it keeps the alignments."""
        if not self.is_blocked:
            return self
        return _from_parts(tuple(map(Axis, self.primal)), self.alignments)

    @property
    def is_blocked(self) -> bool:
        """Whether any axis is split, be it by a block of 1."""
        return len(self.axes) > len(self.primal)

    @property
    def is_plain(self) -> bool:
        """Whether this is an order of axes and nothing else: no block, no alignment, not ``*``."""
        return not (self.is_any or self.is_blocked or self.alignments)

    @property
    def blocked_axes(self) -> tuple[str, ...]:
        """Capital letters of the axes that are split, in the order of :attr:`primal`."""
        split = {axis.name for axis in self.axes if axis.factor is not None}
        return tuple(name for name in self.primal if name in split)

    def block(self, axis: str) -> int:
        """Elements of ``axis`` in one step of its primal part: the product of its blocks, 1 if not split."""
        self._require_axes(axis)
        return self._blocks[axis]

    def alignment(self, axis: str) -> int:
        """Number of elements to a multiple of which ``axis`` is padded, 1 if not aligned."""
        self._require_axes(axis)
        return self._alignments[axis]

    def shape(
        self, primal_shape: Sequence[Dimension], primal_order: "str | Layout"
    ) -> tuple[Dimension | int, ...]:
        """Physical shape of a tensor with extents ``primal_shape`` in the plain layout ``primal_order``.

        Raises:
            LayoutError: if the order has other axes than this layout or is not plain, or the shape does not
                go with it, or an extent to be split or aligned is not an int.
        """
        return self._physical(self._extents(primal_shape, primal_order))

    def logical_shape(
        self, physical_shape: Sequence[Dimension], primal_order: "str | Layout"
    ) -> tuple[Dimension | int, ...]:
        """Extents, in ``primal_order``, of a tensor of that physical shape, its padding included.

        Raises:
            LayoutError: as :meth:`shape`, and if no tensor has that physical shape in this layout.
        """
        order = self._order(primal_order)
        if len(physical_shape) != self.rank:
            raise LayoutError(
                f"shape {_show(physical_shape)}: it has {len(physical_shape)} dimensions but layout "
                f"'{self}' has {self.rank}; give one extent per dimension"
            )
        extents: dict[str, Dimension | int] = {}
        for position, (axis, extent) in enumerate(zip(self.axes, physical_shape, strict=True)):
            known = _known(extent)
            problem = ""
            if axis.factor is not None:
                if known != axis.factor:
                    problem = f"it must be {axis.factor}"
            elif known is not None and known < 0:
                problem = "give 0 or more"
            else:
                block, alignment = self._blocks[axis.name], self._alignments[axis.name]
                if block == alignment == 1:
                    extents[axis.name] = extent
                elif known is None:
                    problem = _NEEDS_KNOWN
                elif known % alignment:
                    problem = f"it must be a multiple of {alignment}"
                else:
                    extents[axis.name] = known * block
            if problem:
                raise LayoutError(
                    f"shape {_show(physical_shape)}: dimension {position}, '{axis}' of layout '{self}', "
                    f"is {extent}; {problem}"
                )
        return tuple(extents[name] for name in order.primal)

    def padding(self, primal_shape: Sequence[object], primal_order: "str | Layout") -> dict[str, int]:
        """Elements added at the end of each primal axis, 0 included. Arguments, errors: as :meth:`shape`."""
        padding: dict[str, int] = {}
        for name, extent in self._extents(primal_shape, primal_order).items():
            unit = max(self._blocks[name], self._alignments[name])
            padding[name] = 0 if unit == 1 else -self._int_extent(name, extent) % unit
        return padding

    def fits(self, primal_shape: Sequence[object], primal_order: "str | Layout") -> bool:
        """Whether that shape needs no padding. Arguments and errors are those of :meth:`shape`."""
        return not any(self.padding(primal_shape, primal_order).values())

    def with_block(self, axis: str, block: int) -> "Layout":
        """This layout with a further block of ``axis`` as innermost dimension: ``NCHW`` to ``NCHW16c``."""
        self._require_axes(axis)
        if not isinstance(block, Integral) or int(block) < 1:
            raise LayoutError(f"layout '{self}': block {block} for axis '{axis}'; give an int of 1 or more")
        return _from_parts((*self.axes, Axis(axis, int(block))), self.alignments)

    def relabel(self, mapping: Mapping[str, str]) -> "Layout":
        """This layout with other letters: ``NCHW16c`` to ``ABCD16b`` by ``dict(zip("NCHW", "ABCD"))``.

        Letters that are no keys stay; keys that are no axes are ignored, so that one mapping serves all the
        tensors of an operator. Raises LayoutError if two axes would get one letter.
        """
        names = {name: mapping.get(name, name) for name in self.primal}
        taken: dict[str, str] = {}
        for old, new in names.items():
            if len(new) != 1 or new not in string.ascii_uppercase:
                raise LayoutError(f"layout '{self}': axis '{old}' relabelled {new!r}; give a capital letter")
            if new in taken:
                raise LayoutError(
                    f"layout '{self}': axes '{taken[new]}' and '{old}' both relabelled '{new}'; "
                    "give each axis a letter of its own"
                )
            taken[new] = old
        axes = tuple(Axis(names[axis.name], axis.factor) for axis in self.axes)
        alignments = tuple((names[name], elements) for name, elements in self.alignments)
        return self if self.is_any else _from_parts(axes, alignments)

    def project(self, axes: Collection[str]) -> "Layout":
        """This layout with only those primal axes and their blocks, in the order they have here."""
        self._require_axes(*axes)
        return _from_parts(
            tuple(axis for axis in self.axes if axis.name in axes),
            tuple(pair for pair in self.alignments if pair[0] in axes),
        )

    def drop(self, axes: Collection[str]) -> "Layout":
        """This layout without those primal axes and their blocks, e.g. after a reduction over them."""
        self._require_axes(*axes)
        return self.project([name for name in self.primal if name not in axes])

    def _require_axes(self, *names: str) -> None:
        if self.is_any:
            raise LayoutError("layout '*': any layout has no axes; give a definite one, e.g. 'NCHW'")
        for name in names:
            if name not in self.primal:
                raise LayoutError(f"layout '{self}': it has no axis {name!r}; its axes are {_letters(self)}")

    def _order(self, primal_order: "str | Layout") -> "Layout":
        """``primal_order``, checked to be a plain order of this layout's axes."""
        self._require_axes()
        order = Layout.of(primal_order)
        if not order.is_plain:
            raise LayoutError(f"order '{order}': not plain; write the capital letters alone, e.g. 'NCHW'")
        if order.primal != self.primal and set(order.primal) != set(self.primal):
            raise LayoutError(
                f"order '{order}': its axes are not those of layout '{self}'; "
                f"write each of {_letters(self)} once"
            )
        return order

    def _extents(
        self, primal_shape: Sequence[Dimension], primal_order: "str | Layout"
    ) -> dict[str, Dimension]:
        order = self._order(primal_order)
        if len(primal_shape) != len(order.primal):
            raise LayoutError(
                f"shape {_show(primal_shape)}: it has {len(primal_shape)} dimensions but order '{order}' has "
                f"{len(order.primal)}; give one extent per axis"
            )
        extents = dict(zip(order.primal, primal_shape, strict=True))
        for name, extent in extents.items():
            known = _known(extent)
            if known is not None and known < 0:
                raise LayoutError(f"shape {_show(primal_shape)}: axis '{name}' is {extent}; give 0 or more")
        return extents

    def _physical(self, extents: Mapping[str, Dimension]) -> tuple[Dimension | int, ...]:
        return tuple(
            self._outer_extent(axis.name, extents[axis.name]) if axis.factor is None else axis.factor
            for axis in self.axes
        )

    def _int_extent(self, name: str, extent: object) -> int:
        known = _known(extent)
        if known is None:
            raise LayoutError(f"layout '{self}': axis '{name}' is {extent}; {_NEEDS_KNOWN}")
        return known

    def _outer_extent(self, name: str, extent: Dimension) -> Dimension | int:
        """Extent of the primal part of an axis, which is ``extent`` where it is neither split nor aligned."""
        block, alignment = self._blocks[name], self._alignments[name]
        if block == alignment == 1:
            return extent
        return -(-self._int_extent(name, extent) // max(block, alignment)) * alignment


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
        """
        if len(index) != self.src.rank:
            raise LayoutError(
                f"index {_show(index)}: it has {len(index)} entries but layout '{self.src}' has "
                f"{self.src.rank} dimensions; give one entry per dimension"
            )
        return tuple(expression.evaluate(index) for expression in _expressions(self.src, self.dst))

    def inverse(self) -> "LayoutTransform":
        """The map back, from ``dst`` to ``src``."""
        return LayoutTransform(self.dst, self.src)

    def compose(self, other: "LayoutTransform") -> "LayoutTransform":
        """This map and then ``other``, which must start from this one's ``dst``."""
        if other.src != self.dst:
            raise LayoutError(f"'{self}' then '{other}': the second must start from '{self.dst}'")
        return LayoutTransform(self.src, other.dst)

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
    """The plain layout whose :func:`dim_order` over ``over`` is ``order``."""
    base = Layout.of(over)
    _require_plain_for_dim_order(base)
    if sorted(order) != list(range(base.rank)):
        raise LayoutError(
            f"dim_order {_show(order)}: not an order of the dimensions of '{base}'; "
            f"write each of 0 to {base.rank - 1} once"
        )
    return _from_parts(tuple(base.axes[position] for position in order), ())


def _require_plain_for_dim_order(layout: Layout) -> None:
    layout._require_axes()
    if not layout.is_plain:
        raise LayoutError(f"layout '{layout}': a dim_order has no blocks or alignments; use a plain layout")


def apply(
    array: npt.NDArray[Any],
    src: str | Layout,
    dst: str | Layout,
    *,
    logical_shape: Sequence[int] | None = None,
    pad_value: Any = 0,
) -> npt.NDArray[Any]:
    """``array``, which is in layout ``src``, as a C-contiguous array in layout ``dst``.

    Args:
        array: of physical shape ``src.shape(...)``.
        logical_shape: extents without padding, in the order of ``src.primal``; what ``array`` holds beyond
            them is dropped. Without it, the padding of ``array`` counts as data.
        pad_value: fills what ``dst`` adds.

    The result may share memory with ``array`` when no element moves.

    Raises:
        LayoutError: if the primal axes differ, or the array or the logical shape does not fit ``src``.
    """
    source, target = _same_axes(src, dst)
    order = source.primal_layout
    held = source.logical_shape(array.shape, order)
    wanted = held if logical_shape is None else tuple(map(int, logical_shape))
    if wanted != held and source.shape(wanted, order) != array.shape:
        raise LayoutError(
            f"logical shape {_show(wanted)}: in layout '{source}' it has shape "
            f"{_show(source.shape(wanted, order))}, but the array has {_show(array.shape)}"
        )
    target_shape = target.shape(wanted, order)
    padded = target.logical_shape(target_shape, order)
    if held == wanted == padded:
        if source == target:
            return np.asarray(array, order="C")
        moves = _single_transpose(source, target)
        if moves is not None:
            digits, permutation = moves
            split = array.reshape([_digit_extent(digit, array.shape) for digit in digits])
            return np.asarray(split.transpose(permutation).reshape(target_shape), order="C")

    # Through the plain tensor: join the blocks of src, crop, pad, split into the blocks of dst.
    extents = {name: (held[i], wanted[i], padded[i]) for i, name in enumerate(order.primal)}
    names = target.primal
    joined = array.transpose([digit.position for name in names for digit in _digits(source)[name]])
    logical = joined.reshape([extents[name][0] for name in names])
    inside = tuple(slice(extents[name][1]) for name in names)
    logical = logical[inside]
    if wanted != padded:
        room = np.full([extents[name][2] for name in names], pad_value, dtype=array.dtype)
        room[inside] = logical
        logical = room
    positions = [digit.position for name in names for digit in _digits(target)[name]]
    split = logical.reshape([target_shape[position] for position in positions])
    return np.asarray(split.transpose(np.argsort(positions)), order="C")


def equivalent_memory(
    src: str | Layout, dst: str | Layout, primal_shape: Sequence[object], primal_order: str | Layout
) -> bool:
    """Whether a tensor of that shape is the same buffer in both layouts, so that no transform is needed.

    That is: buffers of equal length, and every element at the same offset; then also the padding, if any,
    is in the same places. The answer is exact. With symbolic extents it is for all their values at once.
    Arguments and errors are those of :meth:`Layout.shape`, for both layouts.
    """
    source, target = _same_axes(src, dst)
    extents = source._extents(primal_shape, primal_order)
    source_memory, target_memory = (
        _memory(layout, extents, layout._physical(extents)) for layout in (source, target)
    )
    # Never compare a symbolic extent: its == may build an expression.
    no_elements = any(_known(extent) == 0 for extent in extents.values())
    return no_elements or source_memory == target_memory


@lru_cache(maxsize=4096)
def _parse(text: str) -> Layout:
    if text == ANY_TEXT:
        return Layout((), is_any=True)
    return Layout(*layout_grammar.read(text))


def _from_parts(axes: tuple[Axis, ...], alignments: tuple[tuple[str, int], ...]) -> Layout:
    """The layout of these parts, through the parser: one check for all, and one object per text."""
    return _parse(layout_grammar.write(axes, alignments)) if axes else Layout(())


def _same_axes(src: str | Layout, dst: str | Layout) -> tuple[Layout, Layout]:
    source, target = Layout.of(src), Layout.of(dst)
    for side in (source, target):
        side._require_axes()
    if set(source.primal) != set(target.primal):
        raise LayoutError(
            f"layouts '{source}' and '{target}': their axes differ, "
            f"{_letters(source)} and {_letters(target)}; use the same capital letters in both"
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
        found = []
        for name, digits in _digits(layout).items():
            for digit in digits:
                if digit.factor == 1:
                    continue
                inside = [unit for unit in units[name] if digit.unit <= unit < digit.end]
                for unit, end in zip(inside, [*inside[1:], digit.end], strict=True):
                    factor = None if end == float("inf") else int(end) // unit
                    found.append((name, unit, _Split(digit.position, unit // digit.unit, factor)))
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
    known = _known(extent)
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
        extent = _known(extents[name])
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


def _known(extent: object) -> int | None:
    """``extent`` as an int, None if it is symbolic."""
    return int(extent) if isinstance(extent, Integral) else None


def _show(shape: Sequence[object]) -> str:
    # str of each: repr of numpy ints and of symbolic expressions is longer and no clearer.
    return f"({', '.join(map(str, shape))})"


def _letters(layout: Layout) -> str:
    return ", ".join(layout.primal) or "none"


__all__ = [
    "Axis",
    "Layout",
    "LayoutTransform",
    "apply",
    "dim_order",
    "equivalent_memory",
    "from_dim_order",
    "index_map",
]
