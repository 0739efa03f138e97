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
in :mod:`relay_layout.layout.grammar`.

Throughout, *physical* means as in memory, blocks being dimensions of their own, and *primal* or *logical*
means one dimension per capital letter, in the order of a plain layout that the caller names
(``primal_order``). Extents and paddings count elements. A dimension need not be an int where it is only
passed on, so that symbolic shapes can be used.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from numbers import Integral
from string import ascii_uppercase
from typing import TypeVar

from relay_layout.errors import LayoutError
from relay_layout.layout import grammar
from relay_layout.layout.grammar import Axis

Dimension = TypeVar("Dimension")
"""An extent: an int, or any other object (a symbolic variable) where it is only passed on."""

ANY_TEXT = "*"
_NEEDS_KNOWN = "a block or alignment needs an int"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Layout:
    """A layout. Equality and hash go by the canonical text, ``str(layout)``.

    Make one with :meth:`parse`, :meth:`of` or :meth:`generic`; the constructor checks nothing.
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
        text = ANY_TEXT if self.is_any else grammar.write(self.axes, self.alignments)
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

        Rank 0 gives the layout of a scalar, whose text is empty and which no text spells. LayoutError for a
        rank that there are no letters for.
        """
        if not 0 <= rank <= len(ascii_uppercase):
            raise LayoutError(
                f"rank {rank}: no letters for it; a layout has 0 to {len(ascii_uppercase)} axes"
            )
        return _generic(rank)

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
        self.require_axes()
        return len(self.axes)

    @property
    def primal_layout(self) -> "Layout":
        """The plain layout with the same order of primal axes: ``NCHW`` of ``NCHW16c`` or ``NC[a=32]HW``."""
        return self if self.is_any else layout_of_parts(tuple(map(Axis, self.primal)), ())

    @property
    def unaligned(self) -> "Layout":
        """This layout less its alignments."""
        return layout_of_parts(self.axes, ()) if self.alignments else self

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

    def is_split(self, axis: str) -> bool:
        """Whether ``axis`` has blocks, which may hold one element each."""
        self.require_axes(axis)
        return axis in self.blocked_axes

    def block(self, axis: str) -> int:
        """Elements of ``axis`` in one step of its primal part: the product of its blocks, 1 if not split."""
        self.require_axes(axis)
        return self._blocks[axis]

    def alignment(self, axis: str) -> int:
        """Number of elements to a multiple of which ``axis`` is padded, 1 if not aligned."""
        self.require_axes(axis)
        return self._alignments[axis]

    def shape(
        self, primal_shape: Sequence[Dimension], primal_order: "str | Layout"
    ) -> tuple[Dimension | int, ...]:
        """Physical shape of a tensor with extents ``primal_shape`` in the plain layout ``primal_order``.

        Raises:
            LayoutError: if the order has other axes than this layout or is not plain, or the shape does not
                go with it, or an extent to be split or aligned is not an int.
        """
        return self.physical_shape(self.extents(primal_shape, primal_order))

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
                f"shape {show_shape(physical_shape)}: it has {len(physical_shape)} dimensions but layout "
                f"'{self}' has {self.rank}; give one extent per dimension"
            )
        extents: dict[str, Dimension | int] = {}
        for position, (axis, extent) in enumerate(zip(self.axes, physical_shape, strict=True)):
            known = known_extent(extent)
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
                    f"shape {show_shape(physical_shape)}: dimension {position}, '{axis}' of layout '{self}', "
                    f"is {extent}; {problem}"
                )
        return tuple(extents[name] for name in order.primal)

    def padding(self, primal_shape: Sequence[object], primal_order: "str | Layout") -> dict[str, int]:
        """Elements added at the end of each primal axis, 0 included. Arguments, errors: as :meth:`shape`."""
        padding: dict[str, int] = {}
        for name, extent in self.extents(primal_shape, primal_order).items():
            unit = max(self._blocks[name], self._alignments[name])
            padding[name] = 0 if unit == 1 else -self._int_extent(name, extent) % unit
        return padding

    def fits(self, primal_shape: Sequence[object], primal_order: "str | Layout") -> bool:
        """Whether that shape needs no padding. Arguments and errors are those of :meth:`shape`."""
        return not any(self.padding(primal_shape, primal_order).values())

    def uneven_axis(self, extents: Mapping[str, object]) -> str | None:
        """The first split axis that its blocks do not divide, or whose extent is symbolic; None if all fit.

        ``extents`` are by capital letter; axes without one are not asked about. Alignments do not count.
        """
        for axis in self.blocked_axes:
            if axis in extents:
                known = known_extent(extents[axis])
                if known is None or known % self._blocks[axis]:
                    return axis
        return None

    def with_block(self, axis: str, block: int) -> "Layout":
        """This layout with a further block of ``axis`` as innermost dimension: ``NCHW`` to ``NCHW16c``.

        LayoutError for another axis, and for a block that is no number from 1 on.
        """
        self.require_axes(axis)
        if not isinstance(block, Integral) or int(block) < 1:
            raise LayoutError(f"layout '{self}': block {block} for axis '{axis}'; give an int of 1 or more")
        return layout_of_parts((*self.axes, Axis(axis, int(block))), self.alignments)

    def relabel(self, mapping: Mapping[str, str]) -> "Layout":
        """This layout with other letters: ``NCHW16c`` to ``ABCD16b`` by ``dict(zip("NCHW", "ABCD"))``.

        Letters that are no keys stay; keys that are no axes are ignored, so that one mapping serves all the
        tensors of an operator. Raises LayoutError if two axes would get one letter.
        """
        return _relabelled(self, tuple(mapping.get(name, name) for name in self.primal))

    def over_dimensions(self, letters: str) -> "Layout":
        """This layout over the dimensions of a tensor, A the first, that ``letters`` call otherwise."""
        return self.relabel(dict(zip(letters, ascii_uppercase, strict=False)))

    def in_letters(self, letters: str) -> "Layout":
        """The inverse of :meth:`over_dimensions`."""
        return self.relabel(dict(zip(ascii_uppercase, letters, strict=False)))

    def project(self, axes: Collection[str]) -> "Layout":
        """This layout with only those primal axes and their blocks, in the order they have here."""
        self.require_axes(*axes)
        return layout_of_parts(
            tuple(axis for axis in self.axes if axis.name in axes),
            tuple(pair for pair in self.alignments if pair[0] in axes),
        )

    def require_axes(self, *names: str) -> None:
        """Raises LayoutError for axes that the layout has not; ``*`` has none."""
        if self.is_any:
            raise LayoutError("layout '*': any layout has no axes; give a definite one, e.g. 'NCHW'")
        for name in names:
            if name not in self.primal:
                raise LayoutError(
                    f"layout '{self}': it has no axis {name!r}; its axes are {letters_of(self)}"
                )

    def _order(self, primal_order: "str | Layout") -> "Layout":
        """``primal_order``, checked to be a plain order of this layout's axes."""
        self.require_axes()
        order = Layout.of(primal_order)
        if not order.is_plain:
            raise LayoutError(f"order '{order}': not plain; write the capital letters alone, e.g. 'NCHW'")
        if order.primal != self.primal and set(order.primal) != set(self.primal):
            raise LayoutError(
                f"order '{order}': its axes are not those of layout '{self}'; "
                f"write each of {letters_of(self)} once"
            )
        return order

    def extents(
        self, primal_shape: Sequence[Dimension], primal_order: "str | Layout"
    ) -> dict[str, Dimension]:
        """The extent of each primal axis of a shape whose dimensions lie in ``primal_order``, a plain layout.

        LayoutError where the order has other axes, and for another number of dimensions or a negative one.
        """
        order = self._order(primal_order)
        if len(primal_shape) != len(order.primal):
            raise LayoutError(
                f"shape {show_shape(primal_shape)}: it has {len(primal_shape)} dimensions but order "
                f"'{order}' has {len(order.primal)}; give one extent per axis"
            )
        extents = dict(zip(order.primal, primal_shape, strict=True))
        for name, extent in extents.items():
            known = known_extent(extent)
            if known is not None and known < 0:
                raise LayoutError(
                    f"shape {show_shape(primal_shape)}: axis '{name}' is {extent}; give 0 or more"
                )
        return extents

    def physical_shape(self, extents: Mapping[str, Dimension]) -> tuple[Dimension | int, ...]:
        """The shape of a tensor in this layout whose primal axes have these extents, its padding included."""
        return tuple(
            self._outer_extent(axis.name, extents[axis.name]) if axis.factor is None else axis.factor
            for axis in self.axes
        )

    def _int_extent(self, name: str, extent: object) -> int:
        known = known_extent(extent)
        if known is None:
            raise LayoutError(f"layout '{self}': axis '{name}' is {extent}; {_NEEDS_KNOWN}")
        return known

    def _outer_extent(self, name: str, extent: Dimension) -> Dimension | int:
        """Extent of the primal part of an axis, which is ``extent`` where it is neither split nor aligned."""
        block, alignment = self._blocks[name], self._alignments[name]
        if block == alignment == 1:
            return extent
        return -(-self._int_extent(name, extent) // max(block, alignment)) * alignment


@lru_cache(maxsize=4096)
def _parse(text: str) -> Layout:
    if text == ANY_TEXT:
        return Layout((), is_any=True)
    return Layout(*grammar.read(text))


@cache
def _generic(rank: int) -> Layout:
    return layout_of_parts(tuple(Axis(letter) for letter in ascii_uppercase[:rank]), ())


@lru_cache(maxsize=1 << 14)
def _relabelled(layout: Layout, letters: tuple[str, ...]) -> Layout:
    """``layout`` with its primal axes called by those letters, in order."""
    names = dict(zip(layout.primal, letters, strict=True))
    taken: dict[str, str] = {}
    for old, new in names.items():
        if len(new) != 1 or new not in ascii_uppercase:
            raise LayoutError(f"layout '{layout}': axis '{old}' relabelled {new!r}; give a capital letter")
        if new in taken:
            raise LayoutError(
                f"layout '{layout}': axes '{taken[new]}' and '{old}' both relabelled '{new}'; "
                "give each axis a letter of its own"
            )
        taken[new] = old
    axes = tuple(Axis(names[axis.name], axis.factor) for axis in layout.axes)
    alignments = tuple((names[name], elements) for name, elements in layout.alignments)
    return layout if layout.is_any else layout_of_parts(axes, alignments)


@lru_cache(maxsize=1 << 14)
def layout_of_parts(axes: tuple[Axis, ...], alignments: tuple[tuple[str, int], ...]) -> Layout:
    """The layout of these parts, through the parser: one check for all, and one object per text."""
    return _parse(grammar.write(axes, alignments)) if axes else Layout(())


def show_shape(shape: Sequence[object]) -> str:
    """A shape for messages: ``(1, n, 3)``."""
    # str of each: repr of numpy ints and of symbolic expressions is longer and no clearer.
    return f"({', '.join(map(str, shape))})"


def letters_of(layout: Layout) -> str:
    """The axes of a layout for messages: ``N, C``."""
    return ", ".join(layout.primal) or "none"


def known_extent(extent: object) -> int | None:
    """``extent`` as an int, None if it is symbolic."""
    if type(extent) is int:
        return extent
    return int(extent) if isinstance(extent, Integral) else None


__all__ = ["Axis", "Layout", "known_extent", "layout_of_parts", "letters_of", "show_shape"]
