"""Operators that move, repeat or drop elements: their dimensions correspond one to one, or are new."""

from collections.abc import Mapping
from typing import Any

from tvm import tirx

from relay_layout.graph import Node
from relay_layout.ir import ints, is_one, is_static
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import Labels, axis_label, letters, outer_position


def padded(node: Node) -> Labels | None:
    """Padding: a block may cut a padded dimension where it divides both widths of constants."""
    widths, text = ints(node.attributes.pad_width), letters(node.operands[0].rank)
    if len(widths) != 2 * len(text) or node.operands[0].shape is None or node.results[0].shape is None:
        return None
    changed = frozenset(
        label for place, label in enumerate(text) if widths[2 * place] or widths[2 * place + 1]
    )
    whole = changed if str(node.attributes.pad_mode) != "constant" else frozenset()
    return Labels((text,), (text,), whole, changed)


def pads_whole_blocks(node: Node, layout: Layout) -> bool:
    """Whether every width is a multiple of the block that it adds to."""
    widths = ints(node.attributes.pad_width)
    return all(
        width % layout.block(label) == 0
        for place, label in enumerate(letters(node.operands[0].rank))
        for width in widths[2 * place : 2 * place + 2]
    )


def padded_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``pad_width`` in the order of the new dimensions, in blocks where they are cut."""
    widths = ints(node.attributes.pad_width)
    new: list[int] = []
    for axis in layout.axes:
        place = 2 * (ord(axis.name) - ord("A"))
        block = layout.block(axis.name)
        new += [0, 0] if axis.factor else [width // block for width in widths[place : place + 2]]
    return {"pad_width": new}


def split(node: Node) -> Labels | None:
    """Parts along ``axis``, which a block may cut if it divides every part."""
    if any(value.shape is None for value in node.results):
        return None
    data = node.operands[0]
    text = letters(data.rank)
    return Labels((text,), (text,) * len(node.results), exact=frozenset(axis_label(node, data)))


def split_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` at its new place, indices in blocks where it is cut."""
    label = axis_label(node, node.operands[0])
    changes: dict[str, Any] = {"axis": outer_position(layout, label)}
    block = layout.block(label)
    sections = node.attributes.indices_or_sections
    if block > 1 and hasattr(sections, "__len__"):
        changes["indices_or_sections"] = [tirx.IntImm("int64", index // block) for index in ints(sections)]
    return changes


def stacked(node: Node) -> Labels | None:
    """Operands of equal shape along a new dimension."""
    result = node.results[0]
    if result.shape is None or not node.operands:
        return None
    text, new = letters(result.rank), axis_label(node, result)
    return Labels((text.replace(new, ""),) * len(node.operands), (text,), frozenset(new))


def expanded_dims(node: Node) -> Labels | None:
    """New dimensions of one element, which blocks leave whole."""
    if node.results[0].shape is None or node.operands[0].shape is None:
        return None
    text = letters(node.results[0].rank)
    new = _new_labels(node)
    return Labels(("".join(label for label in text if label not in new),), (text,), frozenset(new))


def expanded_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` lists the new dimensions at their places in the new result."""
    return {"axis": sorted(outer_position(layout, label) for label in _new_labels(node))}


def _new_labels(node: Node) -> str:
    rank = node.results[0].rank
    return "".join(letters(rank)[axis % rank] for axis in ints(node.attributes.axis))


def squeezed(node: Node) -> Labels | None:
    """Dimensions of one element that go, which blocks leave whole."""
    shape = node.operands[0].shape
    if shape is None or node.results[0].shape is None:
        return None
    text, gone = letters(len(shape)), _gone_labels(node)
    return Labels((text,), ("".join(label for label in text if label not in gone),), frozenset(gone))


def squeezed_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` lists the dimensions that go at their new places."""
    return {"axis": sorted(outer_position(layout, label) for label in _gone_labels(node))}


def _gone_labels(node: Node) -> str:
    shape, axes = node.operands[0].shape or (), node.attributes.axis
    if axes is None:
        # A symbolic extent is not known to be one, whatever it will be.
        return "".join(letters(len(shape))[axis] for axis in range(len(shape)) if is_one(shape[axis]))
    named = {axis % len(shape) for axis in ints(axes)}
    # Of named ones with a known number of elements, only those of one go.
    return "".join(
        label
        for axis, (label, extent) in enumerate(zip(letters(len(shape)), shape, strict=True))
        if axis in named and (is_one(extent) or not is_static([extent]))
    )


def tiled(node: Node) -> Labels | None:
    """Copies along dimensions, whole blocks of them where they are cut; further repeats add dimensions."""
    data, result = node.operands[0], node.results[0]
    if data.shape is None or result.shape is None:
        return None
    text = letters(result.rank)
    copied = frozenset(label for label, count in zip(text, _repeats(node), strict=True) if count != 1)
    added = result.rank - data.rank
    return Labels((text[added:],), (text,), frozenset(text[:added]), copied)


def tiled_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``repeats`` in the order of the new dimensions."""
    repeats = _repeats(node)
    return {"repeats": [1 if axis.factor else repeats[ord(axis.name) - ord("A")] for axis in layout.axes]}


def tiles_in_order(node: Node, layout: Layout) -> bool:
    """Whether dimensions that a tile adds come first, as the operator places them."""
    added = node.results[0].rank - node.operands[0].rank
    return [axis.name for axis in layout.axes[:added]] == list(letters(added))


def _repeats(node: Node) -> list[int]:
    repeats = ints(node.attributes.repeats)
    return [1] * (node.results[0].rank - len(repeats)) + repeats


def ordered(node: Node) -> Labels | None:
    """Sequences of different lengths, each turned around: both axes stay whole, lengths are a vector."""
    rank = node.operands[0].rank
    if node.operands[0].shape is None:
        return None
    text, attributes = letters(rank), node.attributes
    whole = frozenset(text[int(axis) % rank] for axis in (attributes.seq_axis, attributes.batch_axis))
    return Labels((text, None), (text,), whole)


def ordered_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``seq_axis`` and ``batch_axis`` at their new places."""
    rank = node.operands[0].rank
    return {
        name: outer_position(layout, letters(rank)[int(getattr(node.attributes, name)) % rank])
        for name in ("seq_axis", "batch_axis")
    }


def triangle(node: Node) -> Labels | None:
    """A triangle of the last two dimensions, which stay last and whole."""
    if node.operands[0].shape is None or node.operands[0].rank < 2:
        return None
    text = letters(node.operands[0].rank)
    return Labels((text,), (text,), frozenset(text[-2:]))


def keeps_last_two(node: Node, layout: Layout) -> bool:
    """Whether the last two dimensions are the innermost, in their order."""
    return [axis.name for axis in layout.axes[-2:]] == list(letters(node.operands[0].rank)[-2:])


def along_given_axis(node: Node) -> Labels | None:
    """All operands alike; ``axis``, if it is given, stays whole (argsort, flip, gather_elements)."""
    axis, rank = node.attributes.axis, node.operands[0].rank
    if axis is None or not rank or any(value.rank != rank or value.shape is None for value in node.operands):
        return None
    text, whole = letters(rank), frozenset(axis_label(node, node.operands[0]))
    return Labels((text,) * len(node.operands), (text,) * len(node.results), whole)
