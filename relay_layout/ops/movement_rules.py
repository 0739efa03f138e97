"""Operators that move, repeat or drop elements: their dimensions correspond one to one, or are new."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, tirx

from relay_layout.graph import Node
from relay_layout.ir import Expression, is_static
from relay_layout.layout import Layout
from relay_layout.ops.axis_rules import Labels, letters, outer_position


def padded(node: Node) -> Labels | None:
    """A block must not cut a dimension that is padded."""
    widths = _ints(node.attributes.pad_width)
    text = letters(node.operands[0].rank)
    if len(widths) != 2 * len(text):
        return None
    whole = frozenset(label for place, label in enumerate(text) if widths[2 * place] or widths[2 * place + 1])
    return Labels((text,), (text,), whole)


def padded_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``pad_width`` in the order of the new dimensions."""
    widths = _ints(node.attributes.pad_width)
    new: list[int] = []
    for axis in layout.axes:
        place = 2 * (ord(axis.name) - ord("A"))
        new += [0, 0] if axis.factor else widths[place : place + 2]
    return {"pad_width": new}


def split(node: Node) -> Labels | None:
    """Parts along ``axis``, which a block may cut if it divides every part."""
    text = letters(node.operands[0].rank)
    if any(value.shape is None for value in node.results):
        return None
    return Labels((text,), (text,) * len(node.results))


def split_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` at its new place, indices in blocks where it is cut."""
    rank = node.operands[0].rank
    label = letters(rank)[int(node.attributes.axis) % rank]
    changes: dict[str, Any] = {"axis": outer_position(layout, label)}
    block = layout.block(label)
    sections = node.attributes.indices_or_sections
    if block > 1 and hasattr(sections, "__len__"):
        changes["indices_or_sections"] = [tirx.IntImm("int64", index // block) for index in _ints(sections)]
    return changes


def stacked(node: Node) -> Labels | None:
    """Operands of equal shape along a new dimension."""
    rank = node.results[0].rank
    if node.results[0].shape is None or not node.operands:
        return None
    text = letters(rank)
    axis = int(node.attributes.axis) % rank
    return Labels((text[:axis] + text[axis + 1 :],) * len(node.operands), (text,), frozenset(text[axis]))


def stacked_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axis`` at its new place."""
    rank = node.results[0].rank
    return {"axis": outer_position(layout, letters(rank)[int(node.attributes.axis) % rank])}


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
    return "".join(letters(rank)[axis % rank] for axis in _ints(node.attributes.axis))


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
        return "".join(letters(len(shape))[axis] for axis, extent in enumerate(shape) if extent == 1)
    return "".join(letters(len(shape))[axis % len(shape)] for axis in _ints(axes))


def tiled(node: Node) -> Labels | None:
    """Copies along dimensions, which a block must not cut; no new dimensions."""
    repeats = _ints(node.attributes.repeats)
    rank = node.operands[0].rank
    if node.operands[0].shape is None or len(repeats) > rank:
        return None
    text = letters(rank)
    repeats = [1] * (rank - len(repeats)) + repeats
    return Labels(
        (text,), (text,), frozenset(label for label, n in zip(text, repeats, strict=True) if n != 1)
    )


def tiled_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``repeats`` in the order of the new dimensions."""
    repeats, rank = _ints(node.attributes.repeats), node.operands[0].rank
    repeats = [1] * (rank - len(repeats)) + repeats
    return {"repeats": [1 if axis.factor else repeats[ord(axis.name) - ord("A")] for axis in layout.axes]}


def sliced(node: Node) -> Labels | None:
    """Slices with known bounds; a block may cut a dimension where bounds fall on its edges."""
    known = _slices(node)
    shape = node.operands[0].shape
    if known is None or shape is None or node.results[0].shape is None:
        return None
    text = letters(len(shape))
    whole = frozenset(
        text[axis]
        for axis, (begin, end, stride) in known.items()
        if stride != 1 or begin < 0 or end < 0 or not is_static([shape[axis]])
    )
    return Labels((text,), (text,), whole)


def sliced_arguments(node: Node, layout: Layout, operands: Sequence[Expression]) -> Sequence[Expression]:
    """The data, and axes and bounds in the order of the new dimensions; bounds in blocks where cut."""
    known = _slices(node) or {}
    shape = node.operands[0].shape or ()
    axes, begins, ends, strides = [], [], [], []
    for axis, (begin, end, stride) in known.items():
        label = letters(len(shape))[axis]
        block = layout.block(label)
        if block > 1:
            begin, end = begin // block, min(end, shape[axis]) // block
        axes.append(outer_position(layout, label))
        begins.append(begin)
        ends.append(end)
        strides.append(stride)
    bounds = [
        relax.Tuple([relax.prim_value(number) for number in numbers]) for numbers in (axes, begins, ends)
    ]
    return [operands[0], *bounds, relax.Tuple([relax.prim_value(stride) for stride in strides])]


def cuts_slices_cleanly(node: Node, layout: Layout) -> bool:
    """Whether every bound falls on the edge of a block."""
    shape = node.operands[0].shape or ()
    for axis, (begin, end, _) in (_slices(node) or {}).items():
        block = layout.block(letters(len(shape))[axis])
        if block > 1 and (begin % block or min(end, shape[axis]) % block):
            return False
    return True


def _slices(node: Node) -> dict[int, tuple[int, int, int]] | None:
    """Begin, end and stride by dimension; None where one is not a known number."""
    arguments = node.expression.args[1:]
    lists = []
    for argument in arguments:
        if not isinstance(argument, relax.Tuple):
            return None
        values = [getattr(field, "value", field) for field in argument.fields]
        if not all(isinstance(_plain(value), int) for value in values):
            return None
        lists.append([_plain(value) for value in values])
    axes, begins, ends = lists[:3]
    strides = lists[3] if len(lists) > 3 else [1] * len(axes)
    rank = node.operands[0].rank
    return {
        axis % rank: (begin, end, stride)
        for axis, begin, end, stride in zip(axes, begins, ends, strides, strict=True)
    }


def taken(node: Node) -> Labels | None:
    """Elements by a list of indices along ``axis``, which stays whole."""
    data, indices = node.operands[0], node.operands[-1]
    if node.attributes.axis is None or data.shape is None or len(node.operands) != 2 or indices.rank != 1:
        return None
    text = letters(data.rank)
    return Labels((text, None), (text,), frozenset(text[int(node.attributes.axis) % data.rank]))


def along_given_axis(node: Node) -> Labels | None:
    """All operands alike; ``axis``, if it is given, stays whole (argsort, flip, gather_elements)."""
    axis, rank = node.attributes.axis, node.operands[0].rank
    if axis is None or any(value.rank != rank or value.shape is None for value in node.operands):
        return None
    text = letters(rank)
    whole = frozenset(text[int(axis) % rank])
    return Labels((text,) * len(node.operands), (text,) * len(node.results), whole)


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, int) or type(value).__name__ == "IntImm" else value
