"""The rule of operators that any layout can pass through: each says how its dimensions correspond.

Its row labels the dimensions of every operand and result with capital letters that are local to the
node. One node layout over these labels then decides the layout of every operand and result, by
projection on the labels the tensor has. What differs between operators is only the labelling, which
labels a block must not cut, and which attributes name dimensions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from tvm import relax

from relay_layout.graph import Node, Value
from relay_layout.ir import Expression, Extent, with_attributes
from relay_layout.layout import Layout, known_extent
from relay_layout.ops.alignment import passes_alignment
from relay_layout.ops.signature import Offers, Replacement, Rule, Signature, Wanted


@dataclass(frozen=True)
class Labels:
    """The dimensions of a node: one string of labels per operand and result.

    An operand labelled None keeps its original layout (a scalar, a vector of parameters).
    ``whole`` are labels that the operator treats as one run, which a block must not cut. ``exact`` are
    labels whose extent is not the same in all tensors without being broadcast (the parts of a concat): a
    block must divide each extent, an extent of one too.
    """

    operands: tuple[str | None, ...]
    results: tuple[str | None, ...]
    whole: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()


Arguments = Callable[[Node, Layout, Sequence[Expression]], Sequence[Expression]]
"""All arguments of a call under a node layout, from its tensors in their layouts."""

Expansion = Callable[[Node, Layout], Replacement | None]
"""Other operators that compute the same under a node layout; None where the operator itself can."""


@dataclass(frozen=True)
class Condition:
    """What a row asks of a node layout beside its labels: ``text`` tells the user where it ``holds``."""

    text: str
    holds: Callable[[Node, Layout], bool]


@dataclass(frozen=True)
class AxisRule(Rule):
    """An operator described by labels, and by the attributes that change with the node layout.

    ``expansion`` gives what takes the place of an operator that cannot run in a node layout as it is. With
    ``completes``, a tensor without some of the labels offers its layout too; the labels that it lacks go
    outermost. ``accepts`` may refuse a node layout for other reasons.
    """

    labels: Callable[[Node], Labels | None]
    attributes: Callable[[Node, Layout], Mapping[str, Any]] = lambda node, layout: {}
    alias: bool = False
    expansion: Expansion | None = None
    completes: bool = False
    accepts: Condition | None = None

    @property
    def summary(self) -> str:
        """What ``labels`` says of itself in its first line; nothing where Python keeps no docstrings."""
        return (self.labels.__doc__ or "").partition("\n")[0]

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """A signature for each layout around the node that covers all of its labels and fits."""
        labels = self.labels(node)
        if labels is None:
            return
        everything = set("".join(text for text in (*labels.operands, *labels.results) if text))
        original = Layout.parse("".join(sorted(everything))) if everything else Layout.generic(0)
        # An aliasing operator moves data when it runs as it is, so for it the original order is a choice too.
        seen: set[Layout] = set() if self.alias else {original}
        for layout in self._wanted_layouts(labels, wanted, original.primal):
            if layout in seen:
                continue
            seen.add(layout)
            signature = self._signature(node, labels, layout, offers)
            if signature is not None:
                yield signature

    def _wanted_layouts(self, labels: Labels, wanted: Wanted, everything: Sequence[str]) -> Iterator[Layout]:
        """The layouts around a node in terms of all of its labels, ``everything``; some more than once."""
        slots = [
            *zip(labels.operands, wanted.operands, strict=True),
            *zip(labels.results, wanted.results, strict=True),
        ]
        for text, layouts in slots:
            missing = "".join(label for label in everything if text and label not in text)
            if not text or (missing and not self.completes):
                continue
            for layout in layouts:
                if not layout.primal or len(layout.primal) != len(text):
                    continue
                found = layout.in_letters(text)
                yield Layout.parse(missing + str(found)) if missing else found

    def _signature(self, node: Node, labels: Labels, layout: Layout, offers: Offers) -> Signature | None:
        if any(axis in labels.whole for axis in layout.blocked_axes):
            return None
        if self.accepts is not None and not self.accepts.holds(node, layout):
            return None
        if not passes_alignment(node, layout, labels.whole, labels.exact, labels.operands, labels.results):
            return None
        operands = _projections(layout, labels.operands, node.operands, labels.exact)
        results = _projections(layout, labels.results, node.results, labels.exact)
        if operands is None or results is None:
            return None
        cost = 0.0 if self.alias else offers.operator_cost(node, operands, results)
        layout = layout.unaligned
        attributes = self.attributes(node, layout)
        replacement = self.expansion(node, layout) if self.expansion is not None else None
        return Signature(operands, results, attributes, cost, self.alias, replacement)


def with_arguments(arguments: Arguments) -> Expansion:
    """The call with other arguments: of operators that name dimensions in these, not in attributes."""

    def expansion(node: Node, layout: Layout) -> Replacement:
        def replacement(builder: relax.BlockBuilder, operands: Sequence[Expression]) -> Expression:
            return with_attributes(node.expression, arguments(node, layout, operands))

        return replacement

    return expansion


def _projections(
    layout: Layout, texts: Sequence[str | None], values: Sequence[Value], exact: frozenset[str]
) -> tuple[Layout, ...] | None:
    found = []
    for text, value in zip(texts, values, strict=True):
        own = projected(layout, text, value.shape, exact)
        if own is None:
            return None
        found.append(own)
    return tuple(found)


def projected(
    layout: Layout, text: str | None, shape: tuple[Any, ...] | None, exact: frozenset[str] = frozenset()
) -> Layout | None:
    """The layout of one tensor under a node layout; None where a block does not fit its extents."""
    if shape is None:
        return None
    if text is None:
        return Layout.generic(len(shape))
    if len(shape) < len(text):
        shape = (1,) * (len(text) - len(shape)) + tuple(shape)
    own = layout.project(set(text))
    extents = dict(zip(text, shape, strict=True))
    if any(known_extent(extents[axis]) in (None, 1) for axis, _ in own.alignments):
        # An extent of one that broadcasts over others must not be padded, an open one cannot be.
        return None
    for axis in own.blocked_axes:
        if extents[axis] == 1 and axis not in exact:
            own = _unit_blocks(own, axis)
    if own.uneven_axis(extents) is not None:
        return None
    return own.over_dimensions(text)


def _unit_blocks(layout: Layout, axis: str) -> Layout:
    """The layout of an extent of one that broadcasts over a blocked axis: a block of one."""
    parts = []
    for part in layout.axes:
        if part.factor is None:
            parts.append(part.name)
        else:
            parts.append(f"{1 if part.name == axis else part.factor}{part.name.lower()}")
    return Layout.parse("".join(parts))


def outer_position(layout: Layout, label: str) -> int:
    """The dimension that holds ``label``, which the layout has, in memory; of a block the outer part."""
    for position, axis in enumerate(layout.axes):
        if axis.name == label and axis.factor is None:
            return position
    raise KeyError(label)


def positions(layout: Layout, labels: Iterable[str]) -> list[int]:
    """The dimensions that hold ``labels``, blocks included, in rising order."""
    wanted = set(labels)
    return [position for position, axis in enumerate(layout.axes) if axis.name in wanted]


def letters(rank: int) -> str:
    """A label for each of ``rank`` dimensions: ``ABC`` for three."""
    return ascii_uppercase[:rank]


def axis_label(node: Node, tensor: Value) -> str:
    """The label of the dimension of ``tensor`` that the attribute ``axis`` of a node names."""
    return letters(tensor.rank)[int(node.attributes.axis) % tensor.rank]


def blocks_divide(layout: Layout, shape: Sequence[Extent]) -> bool:
    """Whether every block divides its extent, which must then be known."""
    return layout.uneven_axis(dict(zip(letters(len(shape)), shape, strict=True))) is None
