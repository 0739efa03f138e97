"""Operators that any layout can pass through: each says how its dimensions correspond.

A rule labels the dimensions of every operand and result with capital letters that are local to the
node. One node layout over these labels then decides the layout of every operand and result, by
projection on the labels the tensor has. What differs between operators is only the labelling, which
labels a block must not cut, and which attributes name dimensions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from tvm import relax

from relay_layout.graph import Node, Value
from relay_layout.ir import Expression, with_attributes
from relay_layout.layout import Layout
from relay_layout.ops.signature import Offers, Replacement, Signature, Wanted


@dataclass(frozen=True)
class Labels:
    """The dimensions of a node: one string of labels per operand and result.

    An operand labelled None keeps its original layout (a scalar, a vector of parameters).
    ``whole`` are labels that the operator treats as one run, which a block must not cut.
    """

    operands: tuple[str | None, ...]
    results: tuple[str | None, ...]
    whole: frozenset[str] = frozenset()


Arguments = Callable[[Node, Layout, Sequence[Expression]], Sequence[Expression]]
"""All arguments of a call under a node layout, from its tensors in their layouts."""


@dataclass(frozen=True)
class AxisRule:
    """An operator described by labels, and by the attributes that change with the node layout.

    ``arguments`` gives, for operators that name dimensions in arguments rather than in attributes, all
    arguments of the new call. With ``completes``, a tensor without some of the labels offers its layout too;
    the labels that it lacks go outermost. ``accepts`` may refuse a node layout for other reasons.
    """

    labels: Callable[[Node], Labels | None]
    attributes: Callable[[Node, Layout], Mapping[str, Any]] = lambda node, layout: {}
    alias: bool = False
    arguments: Arguments | None = None
    completes: bool = False
    accepts: Callable[[Node, Layout], bool] = lambda node, layout: True
    decides = False

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """A signature for each layout around the node that covers all of its labels and fits."""
        labels = self.labels(node)
        if labels is None:
            return
        everything = set("".join(text for text in (*labels.operands, *labels.results) if text))
        original = Layout.parse("".join(sorted(everything))) if everything else Layout.generic(0)
        # An aliasing operator moves data when it runs as it is, so for it the original order is a choice too.
        seen: set[Layout] = set() if self.alias else {original}
        slots = [
            *zip(labels.operands, wanted.operands, strict=True),
            *zip(labels.results, wanted.results, strict=True),
        ]
        for text, layouts in slots:
            if not text or (set(text) != everything and not self.completes):
                continue
            missing = "".join(label for label in original.primal if label not in text)
            for layout in layouts:
                if layout.primal and len(layout.primal) == len(text):
                    node_layout = layout.relabel(dict(zip(ascii_uppercase, text, strict=False)))
                    if missing:
                        node_layout = Layout.parse(missing + str(node_layout))
                    if node_layout not in seen:
                        seen.add(node_layout)
                        signature = self._signature(node, labels, node_layout, offers)
                        if signature is not None:
                            yield signature

    def _signature(self, node: Node, labels: Labels, layout: Layout, offers: Offers) -> Signature | None:
        if any(axis in labels.whole for axis in layout.blocked_axes) or not self.accepts(node, layout):
            return None
        operands = [
            _projected(layout, text, value.shape)
            for text, value in zip(labels.operands, node.operands, strict=True)
        ]
        results = [
            _projected(layout, text, value.shape)
            for text, value in zip(labels.results, node.results, strict=True)
        ]
        if any(projected is None for projected in (*operands, *results)):
            return None
        operand_layouts = tuple(projected for projected in operands if projected is not None)
        result_layouts = tuple(projected for projected in results if projected is not None)
        cost = 0.0 if self.alias else offers.operator_cost(node, operand_layouts, result_layouts)
        attributes = self.attributes(node, layout)
        replacement = None
        if self.arguments is not None:
            replacement = _with_arguments(node, layout, self.arguments)
        return Signature(operand_layouts, result_layouts, attributes, cost, self.alias, replacement)

    def rewrite(self, node: Node, signature: Signature, operands: Sequence[Expression]) -> Expression:
        """The same operator on the new operands, with the attributes of the signature."""
        return with_attributes(node.expression, rebuild_arguments(node, operands), **signature.attributes)


def _with_arguments(node: Node, layout: Layout, arguments: Arguments) -> Replacement:
    def replacement(builder: relax.BlockBuilder, operands: Sequence[Expression]) -> Expression:
        del builder
        return with_attributes(node.expression, arguments(node, layout, operands))

    return replacement


def _projected(layout: Layout, text: str | None, shape: tuple[Any, ...] | None) -> Layout | None:
    """The layout of one tensor under a node layout; None where a block does not fit its extents."""
    if shape is None:
        return None
    if text is None:
        return Layout.generic(len(shape))
    if len(shape) < len(text):
        shape = (1,) * (len(text) - len(shape)) + tuple(shape)
    own = layout.project(set(text))
    extents = dict(zip(text, shape, strict=True))
    for axis in own.blocked_axes:
        extent = extents[axis]
        if extent == 1:
            own = _unit_blocks(own, axis)
        elif not isinstance(extent, int) or extent % own.block(axis):
            return None
    return own.relabel(dict(zip(text, ascii_uppercase, strict=False)))


def _unit_blocks(layout: Layout, axis: str) -> Layout:
    """The layout of an extent of one that broadcasts over a blocked axis: a block of one."""
    parts = []
    for part in layout.axes:
        if part.factor is None:
            parts.append(part.name)
        else:
            parts.append(f"{1 if part.name == axis else part.factor}{part.name.lower()}")
    return Layout.parse("".join(parts))


def rebuild_arguments(node: Node, operands: Sequence[Expression]) -> list[Expression]:
    """The call's arguments with its tensors replaced, in the order of ``node.operands``."""
    remaining = iter(operands)

    def rebuilt(tree: Any) -> Expression:
        if isinstance(tree, Value):
            return next(remaining)
        if isinstance(tree, tuple):
            return relax.Tuple([rebuilt(branch) for branch in tree])
        return tree

    return [rebuilt(branch) for branch in node.tree]


def outer_position(layout: Layout, label: str) -> int:
    """The dimension that holds ``label`` (the outer part, where it is blocked) in memory order."""
    for position, axis in enumerate(layout.axes):
        if axis.name == label and axis.factor is None:
            return position
    raise KeyError(label)


def letters(rank: int) -> str:
    return ascii_uppercase[:rank]


def elementwise(node: Node) -> Labels | None:
    """All operands of the result's rank, broadcast where they are shorter or of extent one."""
    shape = node.results[0].shape
    if shape is None or any(value.shape is None for value in node.operands):
        return None
    text = letters(len(shape))
    # A scalar broadcasts in every layout; anything else is lined up with the trailing dimensions.
    operands = tuple(text if value.rank else None for value in node.operands)
    return Labels(operands, (text,) * len(node.results))


def along_axis(node: Node) -> Labels | None:
    """One operand whose ``axis`` is one run (softmax, cumulative sum)."""
    labels = elementwise(node)
    if labels is None:
        return None
    rank = node.operands[0].rank
    return Labels(labels.operands, labels.results, frozenset(letters(rank)[int(node.attributes.axis) % rank]))


def axis_attribute(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` follows its dimension."""
    label = letters(node.results[0].rank)[int(node.attributes.axis) % node.results[0].rank]
    return {"axis": outer_position(layout, label)}


def normalized(node: Node) -> Labels | None:
    """Batch norm: statistics are vectors along ``axis``, which a block must not cut."""
    rank = node.operands[0].rank
    text = letters(rank)
    vectors = (None,) * (len(node.operands) - 1)
    statistics = (None,) * (len(node.results) - 1)
    return Labels((text, *vectors), (text, *statistics), frozenset(text[int(node.attributes.axis) % rank]))


def concatenated(node: Node) -> Labels | None:
    """Operands of equal rank joined along ``axis``, which a block may cut if it divides every operand."""
    text = letters(node.results[0].rank)
    if node.results[0].shape is None or node.attributes.axis is None:
        return None
    return Labels((text,) * len(node.operands), (text,))


def reduced(node: Node) -> Labels | None:
    """Reductions; blocks must not cut a reduced dimension."""
    text = letters(node.operands[0].rank)
    axes = _reduced_axes(node)
    if axes is None:
        return None
    whole = frozenset(text[axis] for axis in axes)
    keep = bool(node.attributes.keepdims)
    result = text if keep else "".join(label for label in text if label not in whole)
    return Labels((text,), (result,), whole)


def reduced_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` lists the same dimensions at their new places."""
    text = letters(node.operands[0].rank)
    return {"axis": sorted(outer_position(layout, text[axis]) for axis in _reduced_axes(node) or ())}


def reduced_one(node: Node) -> Labels | None:
    """The place of an extreme along one dimension; without one it counts elements in the original order."""
    return reduced(node) if node.attributes.axis is not None else None


def reduced_one_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` at its new place."""
    return {"axis": reduced_attributes(node, layout)["axis"][0]}


def _reduced_axes(node: Node) -> list[int] | None:
    axes, rank = node.attributes.axis, node.operands[0].rank
    if axes is None:
        return list(range(rank))
    listed = [axes] if isinstance(axes, int) else list(axes)
    return [int(axis) % rank for axis in listed]


def permuted(node: Node) -> Labels | None:
    """A transpose only renames dimensions: with the same bytes on both sides it does nothing."""
    rank = node.operands[0].rank
    axes = node.attributes.axes
    order = [int(axis) % rank for axis in axes] if axes is not None else list(reversed(range(rank)))
    text = letters(rank)
    return Labels((text,), ("".join(text[axis] for axis in order),))


def spatial(node: Node) -> Labels | None:
    """Pooling and resizing: windows run along the spatial dimensions, which stay whole."""
    text = str(node.attributes.layout)
    if not text.isupper() or node.operands[0].rank != len(text):
        return None
    own = letters(len(text))
    whole = frozenset(label for label, axis in zip(own, text, strict=True) if axis not in "NC")
    return Labels((own,), (own,), whole)


def layout_attribute(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``layout`` in the operator's own letters."""
    return {"layout": spatial_attributes(node, layout)["layout"]}


def first_spatial(node: Node) -> Labels | None:
    """As :func:`spatial` for the first operand; further ones (regions of interest) stay as they are."""
    labels = spatial(node)
    if labels is None:
        return None
    return Labels((*labels.operands, *[None] * (len(node.operands) - 1)), labels.results, labels.whole)


def spatial_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``layout`` and ``out_layout`` in the operator's own letters."""
    text = str(node.attributes.layout)
    own = layout.relabel(dict(zip(letters(len(text)), text, strict=True)))
    return {"layout": str(own), "out_layout": str(own)}
