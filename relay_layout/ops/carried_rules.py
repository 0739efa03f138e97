"""Operators carried from Relay: those on quantized tensors, and extremes over several dimensions.

Quantized tensors carry a layout, scales and zero points stay vectors or scalars. A scale with several values
belongs to one dimension of its tensor, named by an ``axis`` attribute that follows the dimension; a block
must not cut it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from relay_layout.graph import Node
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import Labels, letters, outer_position
from relay_layout.ops.parameter_rules import is_single


def quantized(tensors: int, *axes: str) -> Callable[[Node], Labels | None]:
    """The first ``tensors`` operands and the result alike, the rest parameters along the named axes."""

    def labels(node: Node) -> Labels | None:
        """Quantized tensors, with scales and zero points as vectors or scalars."""
        result = node.results[0]
        if result.shape is None or any(value.shape is None for value in node.operands):
            return None
        text = letters(result.rank)
        main = tuple(text if value.rank else None for value in node.operands[:tensors])
        rest = (None,) * (len(node.operands) - tensors)
        whole = frozenset(text[axis] for axis in (_axis(node, name) for name in axes) if axis is not None)
        return Labels((*main, *rest), (text,), whole if _is_per_axis(node, tensors) else frozenset())

    return labels


def quantized_attributes(*axes: str) -> Callable[[Node, Layout], Mapping[str, Any]]:
    """The named axes at their dimension's new place."""

    def attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
        rank = node.results[0].rank
        places = {name: _axis(node, name) for name in axes}
        return {
            name: outer_position(layout, letters(rank)[axis])
            for name, axis in places.items()
            if axis is not None
        }

    return attributes


def _axis(node: Node, name: str) -> int | None:
    rank = node.results[0].rank
    given = getattr(node.attributes, name, None)
    return int(given) % rank if given is not None and rank else None


def _is_per_axis(node: Node, tensors: int) -> bool:
    return not all(is_single(value) for value in node.operands[tensors:])


def quantized_concatenation(node: Node) -> Labels | None:
    """Tensors, then a scale for each, a zero point for each, and two of the result."""
    count = (len(node.operands) - 2) // 3
    result = node.results[0]
    if result.shape is None or count < 1 or _axis(node, "axis") is None:
        return None
    text = letters(result.rank)
    joined = frozenset(text[_axis(node, "axis") or 0])
    return Labels((*[text] * count, *[None] * (len(node.operands) - count)), (text,), exact=joined)


def extreme(node: Node) -> Labels | None:
    """The place of an extreme over dimensions, which are counted in their original order."""
    text = letters(node.operands[0].rank)
    axes = _extreme_axes(node)
    if axes is None or node.operands[0].shape is None:
        return None
    whole = frozenset(text[axis] for axis in axes)
    result = text if node.attributes.keepdims else "".join(label for label in text if label not in whole)
    return Labels((text,), (result,), whole)


def keeps_counting_order(node: Node, layout: Layout) -> bool:
    """Whether the reduced dimensions stay in their order."""
    places = [
        outer_position(layout, letters(node.operands[0].rank)[axis]) for axis in _extreme_axes(node) or ()
    ]
    return places == sorted(places)


def extreme_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` lists the reduced dimensions at their new places."""
    text = letters(node.operands[0].rank)
    return {
        "axis": [outer_position(layout, text[axis]) for axis in _extreme_axes(node) or ()],
        "exclude": False,
    }


def _extreme_axes(node: Node) -> list[int] | None:
    """The reduced dimensions in rising order; None where all are, which counts over the whole tensor."""
    axes, rank = getattr(node.attributes, "axis", None), node.operands[0].rank
    if axes is None:
        return None
    listed = {int(axis) % rank for axis in ([axes] if isinstance(axes, int) else axes)}
    if bool(node.attributes.exclude):
        listed = set(range(rank)) - listed
    return sorted(listed)
