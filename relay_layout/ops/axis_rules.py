"""Operators element by element, along an axis, over axes, and transposes: how their dimensions correspond."""

from collections.abc import Mapping
from typing import Any

from relay_layout.graph import Node
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import Labels, axis_label, letters, outer_position, positions


def elementwise(node: Node) -> Labels | None:
    """All operands of the result's rank, broadcast where they are shorter or of extent one."""
    # A cast may be of a shape, which has no layout.
    shape = node.results[0].shape if node.results else None
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
    return Labels(labels.operands, labels.results, frozenset(axis_label(node, node.operands[0])))


def axis_attribute(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` follows its dimension."""
    return {"axis": outer_position(layout, axis_label(node, node.results[0]))}


def concatenated(node: Node) -> Labels | None:
    """Operands of equal rank joined along ``axis``, which a block may cut if it divides every operand."""
    result = node.results[0]
    if result.shape is None or node.attributes.axis is None:
        return None
    text = letters(result.rank)
    return Labels((text,) * len(node.operands), (text,), exact=frozenset(axis_label(node, result)))


def reduced(node: Node) -> Labels | None:
    """Reductions: a blocked dimension is reduced with its blocks, a kept one becomes a block of one."""
    axes = reduced_axes(node)
    if axes is None:
        return None
    text = letters(node.operands[0].rank)
    gone = {text[axis] for axis in axes}
    result = text if node.attributes.keepdims else "".join(label for label in text if label not in gone)
    return Labels((text,), (result,) * len(node.results))


def reduced_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` lists the same dimensions at their new places."""
    text = letters(node.operands[0].rank)
    return {"axis": positions(layout, [text[axis] for axis in reduced_axes(node) or ()])}


def reduced_one(node: Node) -> Labels | None:
    """A value or place found along one dimension, which stays whole; over all of them the order counts."""
    labels, axes = reduced(node), reduced_axes(node)
    if labels is None or axes is None or node.attributes.axis is None or len(axes) != 1:
        return None
    text = letters(node.operands[0].rank)
    return Labels(labels.operands, labels.results, frozenset(text[axes[0]]))


def reduced_one_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` at its new place."""
    return {"axis": reduced_attributes(node, layout)["axis"][0]}


def reduced_axes(node: Node) -> list[int] | None:
    """The dimensions a reduction names, all of them for None; None where the rank is unknown or is 0."""
    axes, data = node.attributes.axis, node.operands[0]
    if data.shape is None or not data.rank:
        return None
    if axes is None:
        return list(range(data.rank))
    listed = [axes] if isinstance(axes, int) else list(axes)
    return [int(axis) % data.rank for axis in listed]


def permuted(node: Node) -> Labels | None:
    """A transpose only renames dimensions: with the same bytes on both sides it does nothing."""
    rank = node.operands[0].rank
    axes = node.attributes.axes
    if node.operands[0].shape is None or node.results[0].shape is None:
        return None
    if node.operands[0].is_empty:
        # An alias is a reshape where ranks differ, and a reshape reads 0 as "as before".
        return None
    order = [int(axis) % rank for axis in axes] if axes is not None else list(reversed(range(rank)))
    text = letters(rank)
    return Labels((text,), ("".join(text[axis] for axis in order),))
