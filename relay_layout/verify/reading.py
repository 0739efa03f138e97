"""What one call means on the dimensions of its tensors, in a form in which two calls can be compared.

A reader names each dimension of every operand and result of a call, from the call's attributes and
arguments alone. The kinds of name say what a change of layout may do to such a dimension:

- FREE: the operator does the same at every index along it, so free dimensions of one group may be put in
  another order, cut, or merged, in all tensors alike.
- EXACT: has a part of its own (the axis of a softmax, the ``H`` of a layout attribute); the dimension of
  the same name in the other call, or the same part of it, is meant.
- WHOLE: what happens along it is its group's text ("padded by (1, 1)"); corresponds to one whole dimension
  of that group, and the elements say which.
- OUTER: as WHOLE, but a block may be cut off it, the operator then acting on blocks (an axis of concat).

A FREE dimension that only results have holds the same at every index (a broadcast, a tensor of ones).

A reader answers None for a call that may only be left as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from relay_layout.graph import Node, Value
from relay_layout.layout import Layout
from relay_layout.verify.digits import Digit, Dims, joined
from relay_layout.verify.symbols import extents, times


class Kind(IntEnum):
    """What a change of layout may do to a dimension; see the module."""

    FREE = 0
    EXACT = 1
    WHOLE = 2
    OUTER = 3


class Name(NamedTuple):
    """A dimension of a call: a group, and a number that tells dimensions of the group apart."""

    group: str
    number: int = 0
    kind: Kind = Kind.FREE


class Label(NamedTuple):
    """A dimension of a tensor: the digits of ``name`` from ``unit`` up, as far as its extent goes."""

    name: Name
    unit: int = 1


Labels = tuple[Label, ...]


@dataclass(frozen=True)
class Reading:
    """The dimensions of a call, see the module.

    ``interpreted`` are attributes that the labels account for; all others must be equal in both calls.
    ``reads_arguments`` says the same of arguments that are no tensors. ``amounts`` holds, for OUTER names,
    numbers of elements that the call gives. ``broadcasts``: an operand may have one element where others
    have more.
    """

    operands: tuple[Labels, ...]
    results: tuple[Labels, ...]
    interpreted: frozenset[str] = frozenset()
    reads_arguments: bool = False
    amounts: Mapping[Name, tuple[int, ...]] = field(default_factory=dict)
    broadcasts: bool = False


Reader = Callable[[Node], Reading | None]
"""Reads a call of tensors of known ranks."""


def free(count: int, group: str = "") -> Labels:
    """``count`` dimensions that nothing distinguishes but their place."""
    return tuple(Label(Name(group, number)) for number in range(count))


def exact(group: str) -> Label:
    """A dimension with a part of its own."""
    return Label(Name(group, 0, Kind.EXACT))


def own(position: int, rank: int) -> Labels:
    """The dimensions of an operand that must be as it was: a vector of parameters, a list of boxes."""
    return tuple(Label(Name(f"operand {position}", axis, Kind.EXACT)) for axis in range(rank))


def with_names(labels: Labels, special: Mapping[int, Label]) -> Labels:
    """``labels`` with those at some places replaced."""
    return tuple(special.get(place, label) for place, label in enumerate(labels))


def of_text(text: str, rank: int, of: str = "") -> Labels | None:
    """The dimensions that a layout attribute spells; None where it is none of that rank."""
    if not text[:1].isupper():
        return None
    layout = Layout.parse(text)
    if layout.rank != rank or layout.alignments:
        return None
    unit = dict.fromkeys(layout.primal, 1)
    labels: list[Label | None] = [None] * rank
    for place, part in reversed(list(enumerate(layout.axes))):
        if part.factor is not None:
            labels[place] = Label(Name(of + part.name, 0, Kind.EXACT), unit[part.name])
            unit[part.name] *= part.factor
    return tuple(
        label or Label(Name(of + part.name, 0, Kind.EXACT), unit[part.name])
        for label, part in zip(labels, layout.axes, strict=True)
    )


class Ranks(NamedTuple):
    """How many dimensions each operand and each result of a call has."""

    operands: tuple[int, ...]
    results: tuple[int, ...]

    def own(self, first: int = 1) -> tuple[Labels, ...]:
        """The operands from the place ``first`` on, each as :func:`own`."""
        return tuple(own(first + place, rank) for place, rank in enumerate(self.operands[first:]))


def ranks_of(node: Node) -> Ranks:
    """The ranks of all operands and results, which are known where a call is read."""
    return Ranks(tuple(value.rank for value in node.operands), tuple(value.rank for value in node.results))


def integers(values: Any) -> list[int]:
    """A TVM array of numbers, or one number."""
    if hasattr(values, "__len__"):
        return [int(value) for value in values]
    return [int(values)]


def named_digits(dims: Dims, labels: Labels) -> Dims:
    """Digits of an operand's dimensions as digits of the names that the call has for them."""
    return tuple(
        joined(
            Digit(labels[digit.axis].name, times(labels[digit.axis].unit, digit.unit), digit.extent)
            for digit in dim
        )
        for dim in dims
    )


def frame_of(labels: Labels, value: Value) -> Dims:
    """The dimensions of an original tensor as digits of the names that the call has for them."""
    return tuple(
        () if extent == 1 else (Digit(name, unit, extent),)
        for (name, unit), extent in zip(labels, extents(value.shape or ()), strict=True)
    )


def names_of(reading: Reading) -> list[Name]:
    """Every name in a reading, once."""
    return list(
        dict.fromkeys(label.name for labels in (*reading.operands, *reading.results) for label in labels)
    )
