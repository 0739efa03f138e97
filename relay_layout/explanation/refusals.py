"""Why a rule of the operator table gives no signature for a layout, asked of the rule's own parts."""

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from relay_layout.explanation.readable import Letters
from relay_layout.explanation.words import listed, shown
from relay_layout.graph import Node, Value
from relay_layout.layout import Layout, known_extent
from relay_layout.ops import ConvolutionLayouts, Rule
from relay_layout.ops.alignment import passes_alignment
from relay_layout.ops.axis_rule import AxisRule, Labels, blocks_divide, projected
from relay_layout.ops.convolution_rule import alignment_misfit, tensors_of
from relay_layout.ops.reshape_rule import Group, ReshapeRule, matching_groups


def refusal(rule: Rule, node: Node, place: int, layout: Layout, names: Letters) -> str:
    """What keeps ``rule`` from running ``node`` with a tensor in ``layout``; "" where nothing is found.

    ``place`` counts operands first, then results. The caller has seen that no signature has the layout there.
    A rule with a text ``refuses`` says it in its own words.
    """
    if isinstance(rule, AxisRule):
        return _of_axes(rule, node, place, layout, names)
    told = _unknown_rank(node) or rule.refuses
    if told:
        return told
    if isinstance(rule, ReshapeRule):
        found = _of_reshape(node, place, layout, names)
        if found:
            return found
    return f"it is not what the operator's row carries: {_summary(rule)}"


def convolution_refusal(node: Node, offered: ConvolutionLayouts, names: Letters) -> str:
    """Why a convolution does not run in layouts that it is offered; "" where its row takes them."""
    unknown = _unknown_rank(node)
    if unknown:
        return unknown
    for tensor in tensors_of(node, offered):
        if not tensor.original.isupper():
            return f"it has the blocked layout {tensor.original} already"
        if not tensor.has_same_axes:
            return f"{tensor.own} has other axes than its {tensor.original}"
        layout = tensor.layout
        uneven = _uneven(layout, tensor.value, layout.blocked_axes, names)
        if uneven:
            groups = int(getattr(node.attributes, "groups", 1))
            shared = f" ({groups} groups)" if groups > 1 and tensor.value is node.operands[1] else ""
            return f"{tensor.own}: {uneven}{shared}"
    return alignment_misfit(node, offered)


def _of_axes(rule: AxisRule, node: Node, place: int, layout: Layout, names: Letters) -> str:
    labels = rule.labels(node)
    if labels is None:
        return _unknown_rank(node) or f"the operator's row does not take this case: {_summary(rule)}"
    values = [*node.operands, *node.results]
    texts = [*labels.operands, *labels.results]
    text, value = texts[place], values[place]
    if not text:
        return f"'{shown(value.name)}' is read in its original layout only"
    everything = "".join(sorted(set("".join(filter(None, texts)))))
    if len(layout.primal) != len(text):
        return f"'{shown(value.name)}' has {len(text)} dimensions and the layout {len(layout.primal)}"
    missing = "".join(label for label in everything if label not in text)
    if missing and not rule.completes:
        return (
            f"'{shown(value.name)}' lacks dimensions of the operator, so that it cannot set a layout for all"
        )
    node_layout = layout.in_letters(text)
    if missing:
        node_layout = Layout.parse(missing + str(node_layout))
    return _of_node_layout(rule, node, labels, node_layout, names)


def _of_node_layout(rule: AxisRule, node: Node, labels: Labels, layout: Layout, names: Letters) -> str:
    values = [*node.operands, *node.results]
    texts = [*labels.operands, *labels.results]
    cut = [axis for axis in layout.blocked_axes if axis in labels.whole]
    if cut:
        called = listed([_letter(axis, texts, values, names) for axis in cut])
        return f"a block must not cut {called}, which {node.operator} needs as one run"
    if rule.accepts is not None and not rule.accepts.holds(node, layout):
        return f"the operator's row takes a layout only where {rule.accepts.text}"
    if not passes_alignment(node, layout, labels.whole, labels.exact, labels.operands, labels.results):
        return f"zeros added for alignment would not stay zeros through {node.operator}"
    for text, value in zip(texts, values, strict=True):
        if projected(layout, text, value.shape, labels.exact) is not None:
            continue
        if value.shape is None or text is None:
            return f"the rank of '{shown(value.name)}' is unknown"
        own = layout.project(set(text)).over_dimensions(text)
        # An extent of one broadcasts over a block, unless the row says that it does not.
        exact = {ascii_uppercase[position] for position, label in enumerate(text) if label in labels.exact}
        checked = [axis for axis in own.blocked_axes if axis in exact or _extent(value, axis, text) != 1]
        is_open = any(known_extent(_extent(value, axis, text)) is None for axis, _ in own.alignments)
        extent = (
            "an open extent, which alignment cannot"
            if is_open
            else "an extent of one, which alignment must not"
        )
        padded = f"'{shown(value.name)}' has {extent} pad"
        return _uneven(own, value, checked, names) or padded
    return ""


def _of_reshape(node: Node, place: int, layout: Layout, names: Letters) -> str:
    source, target = node.operands[0], node.results[0]
    groups = matching_groups(source.shape or (), target.shape or ())
    if groups is None:
        return "symbolic or empty extents hide which of its dimensions correspond"
    value = source if place == 0 else target
    own = groups if place == 0 else [(after, before) for before, after in groups]
    if not blocks_divide(layout, value.shape or ()):
        return _uneven(layout, value, layout.blocked_axes, names)
    for group in own:
        if _is_torn(group, layout):
            called = listed([names.of(value)[ascii_uppercase.index(letter)] for letter in group[0]])
            return f"it merges or splits {called}, which must stay neighbours in that order"
    other = target if place == 0 else source
    for before, after in own:
        # A block lies at the end of a group, and so at the end of what the group becomes.
        if before[-1:] in layout.blocked_axes and after:
            blocked = other.identity.with_block(after[-1], layout.block(before[-1]))
            uneven = _uneven(blocked, other, after[-1], names)
            if uneven:
                return uneven
    return ""


def _is_torn(group: Group, layout: Layout) -> bool:
    """Whether the letters of a group are not one run of whole dimensions; its last may have a block."""
    before = group[0]
    places = [place for place, axis in enumerate(layout.axes) if axis.name in before and axis.factor is None]
    run = [layout.axes[place].name for place in places]
    neighbours = not places or places == list(range(places[0], places[0] + len(places)))
    return (
        "".join(run) != before or not neighbours or any(axis in before[:-1] for axis in layout.blocked_axes)
    )


def _uneven(layout: Layout, value: Value, axes: Sequence[str], names: Letters) -> str:
    """The first of ``axes`` whose extent a block does not divide."""
    text = ascii_uppercase[: len(layout.primal)]
    extents = {axis: _extent(value, axis, text) for axis in axes}
    axis = layout.uneven_axis(extents)
    if axis is None:
        return ""
    extent, called = extents[axis], names.of(value, len(text))[ascii_uppercase.index(axis)]
    if not isinstance(extent, int):
        return f"{called} of '{shown(value.name)}' is symbolic ({extent}), and a block needs a number"
    return f"a block of {layout.block(axis)} does not divide {called} of '{shown(value.name)}', {extent}"


def _extent(value: Value, axis: str, text: str) -> Any:
    """The extent of one dimension of a tensor seen with ``len(text)`` dimensions."""
    shape = value.shape or ()
    return ((1,) * (len(text) - len(shape)) + tuple(shape))[ascii_uppercase.index(axis)]


def _letter(label: str, texts: Sequence[str | None], values: Sequence[Value], names: Letters) -> str:
    """What a label of a row is called in the first tensor that has it."""
    for text, value in zip(texts, values, strict=True):
        if text and label in text:
            return names.of(value, len(text))[text.index(label)]
    return label


def _unknown_rank(node: Node) -> str:
    unknown = [value for value in (*node.operands, *node.results) if value.shape is None]
    return f"the rank of '{shown(unknown[0].name)}' is unknown" if unknown else ""


def _summary(rule: Rule) -> str:
    text = rule.summary.rstrip(".")
    return text[:1].lower() + text[1:]
