"""The one grammar of layout texts: text to axes and back. :mod:`relay_layout.layout` says what they mean.

::

    layout    = "*" | part+
    part      = axis | block
    axis      = CAPITAL [ "[a=" number "]" ]      each capital at most once
    block     = number small                      any number per axis; the axis itself must be present
    number    = 1 ... 2147483647, without leading zeros
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, NoReturn

from relay_layout.errors import LayoutError

LARGEST_NUMBER = 2**31 - 1
"""Largest block or alignment: what a 32-bit shape extent can hold, and a bound on hostile input."""

_PART = re.compile(
    r"(?P<axis>[A-Z])(?:\[a=(?P<alignment>[0-9]+)\])?|(?P<size>[0-9]+)(?P<block>[a-z])",
)
_NUMBER = re.compile(r"[0-9]+")
# What Relay and its C++ core write where there is no layout; named so that the message can say so.
_RELAY_PLACEHOLDERS = frozenset({"default", "__undef__"})


class Axis(NamedTuple):
    """One physical dimension: the primal (outer) part of a logical axis, or one block split off it."""

    name: str
    """Capital letter of the logical axis."""
    factor: int | None = None
    """Extent of the block in elements; None for the primal part."""

    def __str__(self) -> str:
        return self.name if self.factor is None else f"{self.factor}{self.name.lower()}"


class Parts(NamedTuple):
    """What a text says: the physical dimensions in order, and (axis, elements) for each aligned axis."""

    axes: tuple[Axis, ...]
    alignments: tuple[tuple[str, int], ...]


def read(text: str) -> Parts:
    """The parts of a layout text other than ``"*"``.

    An alignment of 1 asks for nothing and is left out.

    Raises:
        LayoutError: if the text does not follow the grammar; says what is wrong, and at which position.
    """
    if not text:
        _fail(text, "it is empty; write one capital letter per axis, e.g. 'NCHW', or '*' for any layout")
    if text in _RELAY_PLACEHOLDERS:
        _fail(text, "this is Relay's word for no layout; write one such as 'NCHW', or '*' for any layout")
    axes: list[Axis] = []
    axis_at: dict[str, int] = {}
    block_at: dict[str, int] = {}
    alignment: dict[str, int] = {}
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            _fail_at(text, position)
        if name := match["axis"]:
            if name in axis_at:
                _fail(
                    text,
                    f"axis '{name}' at position {position} is already at position {axis_at[name]}; "
                    "write each capital letter once",
                )
            axis_at[name] = position
            axes.append(Axis(name))
            if match["alignment"]:
                elements = _number(text, match["alignment"], match.start("alignment"))
                if elements > 1:
                    alignment[name] = elements
        else:
            name = match["block"].upper()
            block_at.setdefault(name, position)
            axes.append(Axis(name, _number(text, match["size"], position)))
        position = match.end()
    # Only now: a block may be written before the axis that it splits.
    _check_blocks(text, axis_at, block_at, alignment)
    return Parts(tuple(axes), tuple(alignment.items()))


def _check_blocks(
    text: str, axis_at: Mapping[str, int], block_at: Mapping[str, int], alignment: Mapping[str, int]
) -> None:
    """LayoutError for a block of an axis that is not there, or that has an alignment."""
    for name, position in block_at.items():
        if name not in axis_at:
            _fail(
                text,
                f"the block of '{name.lower()}' at position {position} has no axis '{name}' to split; "
                f"add the capital letter '{name}'",
            )
        if name in alignment:
            _fail(
                text,
                f"axis '{name}' has both an alignment at position {axis_at[name] + 1} "
                f"and a block at position {position}; keep one of them",
            )


def write(axes: Iterable[Axis], alignments: Iterable[tuple[str, int]]) -> str:
    """The canonical text of these parts; the inverse of :func:`read`."""
    marks = {name: f"[a={elements}]" for name, elements in alignments}
    return "".join(str(axis) + (marks.get(axis.name, "") if axis.factor is None else "") for axis in axes)


def _number(text: str, digits: str, position: int) -> int:
    """The value of ``digits``, found in ``text`` at ``position``."""
    stripped = digits.lstrip("0")
    if not stripped:
        _fail(text, f"the number {digits} at position {position} is zero; write 1 or more")
    if stripped != digits:
        _fail(text, f"the number at position {position} starts with a zero; write it without")
    # Length first: int() refuses thousands of digits with an error of its own.
    if len(digits) > len(str(LARGEST_NUMBER)) or int(digits) > LARGEST_NUMBER:
        _fail(text, f"the number at position {position} is too large; write at most {LARGEST_NUMBER}")
    return int(digits)


def _fail_at(text: str, position: int) -> NoReturn:
    """Say why no part of a layout starts at ``position``."""
    character = text[position]
    if number := _NUMBER.match(text, position):
        following = repr(text[number.end()]) if number.end() < len(text) else "nothing"
        _fail(
            text,
            f"the number at position {position} is followed by {following}; "
            "write the small letter of the axis that it splits, e.g. '16c'",
        )
    if text.isascii() and text.isalpha() and text.islower():
        _fail(text, f"axes are capital letters; write {text.upper()!r}")
    if "a" <= character <= "z":
        _fail(
            text,
            f"the small letter '{character}' at position {position} has no number; "
            f"write the size of the block before it, e.g. '16{character}'",
        )
    if character == "[":
        _fail(
            text,
            f"no alignment can be read at position {position}; "
            "write '[a=NUMBER]' directly after a capital letter, e.g. 'NC[a=32]HW'",
        )
    if character == "*":
        _fail(text, f"'*' at position {position} is not alone; write '*' for any layout, or name every axis")
    _fail(
        text,
        f"unexpected character {character!r} at position {position}; write axes as capital letters "
        "and blocks as a number and a small letter, e.g. 'NCHW16c'",
    )


def _fail(text: str, problem: str) -> NoReturn:
    # repr keeps the message on one line whatever the text holds; the cut keeps the line readable.
    shown = text if len(text) <= 60 else text[:57] + "..."
    raise LayoutError(f"layout {shown!r}: {problem}")
