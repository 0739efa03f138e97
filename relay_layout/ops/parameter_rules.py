"""Operators with parameters along some dimensions: normalisations, prelu, quantisation.

Parameters that are vectors along one dimension stay vectors. Those over several dimensions have labels
of their own, so that they follow the order that the dimensions take.
"""

from collections.abc import Mapping
from typing import Any

from relay_layout.graph import Node
from relay_layout.layout import Layout
from relay_layout.ops.axis_rules import Labels, letters, outer_position


def over_axes(node: Node) -> Labels | None:
    """Layer and RMS norm: statistics over ``axes``, parameters with exactly those dimensions."""
    data = node.operands[0]
    if data.shape is None:
        return None
    text = letters(data.rank)
    axes = "".join(text[axis] for axis in sorted(int(axis) % data.rank for axis in node.attributes.axes))
    if any(value.rank != len(axes) for value in node.operands[1:]):
        return None
    return Labels((text, *[axes] * (len(node.operands) - 1)), (text,), frozenset(axes))


def over_axes_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axes`` at their new places, in the order in which the parameters then have them."""
    rank = node.operands[0].rank
    labels = [letters(rank)[int(axis) % rank] for axis in node.attributes.axes]
    return {"axes": sorted(outer_position(layout, label) for label in labels)}


def over_last_axes(node: Node, layout: Layout) -> bool:
    """Whether ``axes`` come last, as TVM's lowering of RMS norm needs them."""
    count = len(node.attributes.axes)
    places = over_axes_attributes(node, layout)["axes"]
    return bool(places == list(range(len(layout.axes) - count, len(layout.axes))))


def per_channel(node: Node) -> Labels | None:
    """Instance and group norm: vectors along ``channel_axis``, statistics over ``axes``; all stay whole."""
    data = node.operands[0]
    if data.shape is None:
        return None
    text = letters(data.rank)
    whole = {text[int(axis) % data.rank] for axis in node.attributes.axes}
    whole.add(text[int(node.attributes.channel_axis) % data.rank])
    return Labels((text, *[None] * (len(node.operands) - 1)), (text,), frozenset(whole))


def per_channel_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axes`` and ``channel_axis`` at their new places."""
    rank = node.operands[0].rank
    channel = letters(rank)[int(node.attributes.channel_axis) % rank]
    return {**over_axes_attributes(node, layout), "channel_axis": outer_position(layout, channel)}


def vector_along_axis(node: Node) -> Labels | None:
    """One tensor, and vectors or scalars along ``axis``, which stays whole where there is a vector."""
    data = node.operands[0]
    if data.shape is None:
        return None
    text = letters(data.rank)
    others = node.operands[1:]
    if any(value.rank > 1 for value in others) or not data.rank:
        return None
    vectors = any(value.shape not in ((), (1,)) for value in others)
    whole = frozenset(text[int(node.attributes.axis) % data.rank]) if vectors else frozenset()
    return Labels((text, *[None] * len(others)), (text,), whole)
