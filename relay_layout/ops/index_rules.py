"""Elements by index: where an index tensor takes the place of dimensions of the data."""

from collections.abc import Callable, Iterable

from relay_layout.graph import Node
from relay_layout.layout import Axis, Layout, layout_of_parts
from relay_layout.ops.axis_rule import blocks_divide, letters, outer_position
from relay_layout.ops.signature import Offers, Rule, Signature, Wanted

Triple = tuple[Layout, Layout, Layout]
"""Layouts of data, indices and result."""


class TakeRule(Rule):
    """The dimensions of the indices, together, take the place of ``axis``, which stays whole."""

    summary = "The dimensions of the indices, together, take the place of axis, which stays whole."

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One for each layout around the node that keeps the dimensions of the indices together."""
        data, result = node.operands[0], node.results[0]
        if node.attributes.axis is None or data.shape is None or result.shape is None:
            return
        indices = node.operands[1] if len(node.operands) > 1 else None
        if indices is not None and indices.shape is None:
            return
        count = indices.rank if indices is not None else 0
        axis = int(node.attributes.axis) % data.rank
        kept = Layout.generic(count)
        triples = [_forward(layout, kept, axis) for layout in wanted.operands[0]]
        if indices is not None:
            triples += [_forward(data.identity, layout, axis) for layout in wanted.operands[1]]
        triples += [_backward(layout, count, axis) for layout in wanted.results[0]]
        seen = {(data.identity, kept, result.identity)}
        for triple in triples:
            if triple is None or triple in seen or not blocks_divide(triple[0], data.shape):
                continue
            seen.add(triple)
            operands = triple[:2] if indices is not None else triple[:1]
            place = outer_position(triple[0], letters(data.rank)[axis])
            cost = offers.operator_cost(node, operands, triple[2:])
            yield Signature(operands, triple[2:], {"axis": place}, cost)


def _forward(data: Layout, indices: Layout, axis: int) -> Triple | None:
    """The layout of the result, from those of data and indices."""
    taken, count = letters(axis + 1)[-1], len(indices.primal)
    if not indices.is_plain or data.is_split(taken) or data.alignments:
        return None
    parts: list[Axis] = []
    for part in data.axes:
        if part.name == taken:
            parts += [Axis(_shifted(index.name, axis)) for index in indices.axes]
        else:
            moved = count - 1 if part.name > taken else 0
            parts.append(Axis(_shifted(part.name, moved), part.factor))
    return data, indices, layout_of_parts(tuple(parts), ())


def _backward(result: Layout, count: int, axis: int) -> Triple | None:
    """The layouts of data and indices, from that of the result."""
    taken, run = letters(axis + 1)[-1], letters(axis + count)[axis:]
    places = [place for place, part in enumerate(result.axes) if part.name in run]
    together = places == list(range(places[0], places[0] + count)) if count else True
    if result.alignments or not together:
        return None
    parts: list[Axis] = [] if count else [Axis(taken)]
    for place, part in enumerate(result.axes):
        if part.name not in run:
            moved = 1 - count if part.name > taken or (part.name == taken and not count) else 0
            parts.append(Axis(_shifted(part.name, moved), part.factor))
        elif place == places[0]:
            parts.append(Axis(taken))
    indices = [Axis(_shifted(result.axes[place].name, -axis)) for place in places]
    return layout_of_parts(tuple(parts), ()), layout_of_parts(tuple(indices), ()), result


def _shifted(letter: str, places: int) -> str:
    return chr(ord(letter) + places)


Prefixes = tuple[tuple[int | None, ...], tuple[int | None, ...]]
"""How many leading dimensions of each operand and result are indexed; None for one without the others."""


class TailRule(Rule):
    """Leading dimensions are indexed and stay first, in order; those that follow may lie in any order."""

    summary = "Leading dimensions are indexed and stay first, in order; those that follow are free."

    def __init__(self, prefixes: Callable[[Node], Prefixes | None]) -> None:
        self.prefixes = prefixes

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One for each order of the trailing dimensions among the layouts around the node."""
        found = self.prefixes(node) if node.has_known_ranks else None
        if found is None:
            return
        values = [*node.operands, *node.results]
        prefixes = [*found[0], *found[1]]
        seen = set()
        for prefix, layouts in zip(prefixes, (*wanted.operands, *wanted.results), strict=True):
            for layout in layouts if prefix is not None else ():
                tail = _tail(layout, prefix or 0)
                if tail is None or tail in seen:
                    continue
                seen.add(tail)
                chosen = tuple(
                    value.identity if before is None else _with_tail(tail, before)
                    for value, before in zip(values, prefixes, strict=True)
                )
                unlike = any(own != value.identity for value, own in zip(values, chosen, strict=True))
                if unlike and all(
                    blocks_divide(own, value.shape or ()) for value, own in zip(values, chosen, strict=True)
                ):
                    operands, results = chosen[: len(node.operands)], chosen[len(node.operands) :]
                    yield Signature(operands, results, cost=offers.operator_cost(node, operands, results))


def gathered_prefixes(node: Node) -> Prefixes | None:
    """gather_nd: batch and indexed dimensions of the data, all but the last of the indices."""
    width = _indexed(node)
    if width is None:
        return None
    return (int(node.attributes.batch_dims) + width, None), (node.operands[1].rank - 1,)


def scattered_prefixes(node: Node) -> Prefixes | None:
    """scatter_nd: indexed dimensions of data and result, all but the last of the indices in the updates."""
    width = _indexed(node)
    return None if width is None else ((width, None, node.operands[1].rank - 1), (width,))


def _indexed(node: Node) -> int | None:
    """How many dimensions each row of the indices is for; None where their last extent is not known."""
    width = (node.operands[1].shape or (None,))[-1]
    return width if isinstance(width, int) else None


def _tail(layout: Layout, prefix: int) -> Layout | None:
    """The layout of the trailing dimensions, lettered from A; None where the leading ones moved."""
    if layout.alignments or [part.name for part in layout.axes[:prefix]] != list(letters(prefix)):
        return None
    parts = tuple(layout.axes[prefix:])
    if any(part.name in letters(prefix) for part in parts):
        return None
    return layout_of_parts(tuple(Axis(_shifted(part.name, -prefix), part.factor) for part in parts), ())


def _with_tail(tail: Layout, prefix: int) -> Layout:
    moved = (Axis(_shifted(part.name, prefix), part.factor) for part in tail.axes)
    return layout_of_parts((*map(Axis, letters(prefix)), *moved), ())
