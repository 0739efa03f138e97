"""Readers of operators that treat some dimensions by their place: along an axis, over axes, by position."""

from collections.abc import Mapping
from typing import Any

from relay_layout.graph import Node
from relay_layout.verify.reading import (
    Kind,
    Label,
    Labels,
    Name,
    Reader,
    Reading,
    exact,
    free,
    integers,
    own,
    ranks_of,
    with_names,
)
from relay_layout.verify.symbols import extents


def elementwise(node: Node) -> Reading | None:
    """The operator does the same everywhere; operands broadcast from the last dimension on."""
    ranks = ranks_of(node)
    if not node.results:
        return None
    rank = max(ranks.results)
    if any(result != rank for result in ranks.results) or any(operand > rank for operand in ranks.operands):
        return None
    labels = free(rank)
    operands = tuple(labels[rank - operand :] for operand in ranks.operands)
    return Reading(operands, (labels,) * len(ranks.results), broadcasts=True)


def cast(node: Node) -> Reading | None:
    """Extents that are only named keep what they were; one that is checked belongs to a whole dimension."""
    ranks = ranks_of(node)
    if ranks.operands != ranks.results or len(ranks.operands) != 1:
        return None
    before, after = node.operands[0].shape or (), node.results[0].shape or ()
    special = {
        place: Label(Name("checked", place, Kind.WHOLE))
        for place, (left, right) in enumerate(zip(extents(before), extents(after), strict=True))
        if left != right
    }
    labels = with_names(free(ranks.operands[0]), special)
    return Reading((labels,), (labels,))


def along_axis(node: Node) -> Reading | None:
    """Tensors of one rank, one dimension of which (``axis``) the operator runs along."""
    ranks = ranks_of(node)
    if node.attributes.axis is None or len({*ranks.operands, *ranks.results}) != 1:
        return None
    rank = ranks.operands[0]
    if not rank:
        return None
    axis = int(node.attributes.axis) % rank
    labels = with_names(free(rank), {axis: exact("axis")})
    shapes = [extents(value.shape or ()) for value in node.operands]
    uneven = {
        place: Label(Name("of another extent in another operand", place, Kind.WHOLE))
        for place in range(rank)
        if place != axis and any(shape[place] != shapes[0][place] for shape in shapes)
    }
    labels = with_names(labels, uneven)
    return Reading((labels,) * len(ranks.operands), (labels,) * len(ranks.results), frozenset({"axis"}))


def _axes(given: Any, rank: int) -> list[int]:
    if given is None:
        return list(range(rank))
    return [axis % rank for axis in integers(given)]


def reduction(node: Node) -> Reading | None:
    """All dimensions in ``axis`` together become one element."""
    ranks = ranks_of(node)
    rank = ranks.operands[0]
    gone = set(_axes(node.attributes.axis, rank))
    labels = tuple(
        Label(Name("axis", place)) if place in gone else label for place, label in enumerate(free(rank))
    )
    kept = _kept(labels, gone, bool(node.attributes.keepdims))
    return Reading((labels,), (kept,) * len(ranks.results), frozenset({"axis"}))


def _kept(labels: Labels, gone: set[int], keepdims: bool) -> Labels:
    return tuple(label for place, label in enumerate(labels) if keepdims or place not in gone)


def place_of_extreme(node: Node) -> Reading | None:
    """As a reduction, but places are counted, so that reduced dimensions keep their order."""
    ranks = ranks_of(node)
    attributes = node.attributes
    rank = ranks.operands[0]
    gone = set(_axes(getattr(attributes, "axis", None), rank))
    if getattr(attributes, "exclude", None):
        gone = set(range(rank)) - gone
    shape = node.operands[0].shape or ()
    special = {
        axis: Label(Name("axis", number, Kind.EXACT))
        for number, axis in enumerate(axis for axis in sorted(gone) if shape[axis] != 1)
    }
    labels = with_names(free(rank), special)
    return Reading(
        (labels,), (_kept(labels, gone, bool(attributes.keepdims)),), frozenset({"axis", "exclude"})
    )


def triangle(node: Node) -> Reading | None:
    """The last two dimensions are rows and columns."""
    ranks = ranks_of(node)
    if ranks.operands[0] < 2:
        return None
    rank = ranks.operands[0]
    labels = with_names(free(rank), {rank - 2: exact("rows"), rank - 1: exact("columns")})
    return Reading((labels,), (labels,))


def matrix_product(node: Node) -> Reading | None:
    """Rows by columns over what is in between; the dimensions before them broadcast."""
    ranks = ranks_of(node)
    if 0 in ranks.operands:
        return None
    left, right = ranks.operands
    batch = max(left, right, 2) - 2
    labels = free(batch)
    # With one matrix for all, the rows of the other operand are as free as its batches.
    rows = Label(Name("rows" if right > 2 else "", batch))
    columns = Label(Name("columns" if left > 2 else "", batch + 1))
    between = Label(Name("contracted"))
    first = (between,) if left == 1 else (*labels[batch - left + 2 :], rows, between)
    second = (between,) if right == 1 else (*labels[batch - right + 2 :], between, columns)
    result = (*labels, *((rows,) if left > 1 else ()), *((columns,) if right > 1 else ()))
    return Reading((first, second), (result,), broadcasts=True)


def normalized_along(*attributes: str) -> Reader:
    """A tensor, and vectors (or scalars) along one dimension that ``attributes[0]`` names.

    ``attributes[1]``, if given, names dimensions over which statistics are taken together.
    """

    def read(node: Node) -> Reading | None:
        ranks = ranks_of(node)
        if any(rank > 1 for rank in ranks.operands[1:]):
            return None
        rank = ranks.operands[0]
        along = int(getattr(node.attributes, attributes[0])) % rank if rank else 0
        special: dict[int, Label] = {}
        for name in attributes[1:]:
            special |= {axis: Label(Name(name, axis)) for axis in _axes(getattr(node.attributes, name), rank)}
        vectors = any(value.shape not in ((), (1,)) for value in node.operands[1:])
        if vectors or len(attributes) > 1:
            special[along] = exact(attributes[0])
        labels = with_names(free(rank), special)
        rest = ranks.own()
        results = (labels, *(own(place, other) for place, other in enumerate(ranks.results) if place))
        return Reading((labels, *rest), results, frozenset(attributes))

    return read


def normalized_over(node: Node) -> Reading | None:
    """A tensor, and parameters that have exactly its dimensions in ``axes``."""
    ranks = ranks_of(node)
    rank = ranks.operands[0]
    axes = _axes(node.attributes.axes, rank)
    # Parameters have the dimensions as listed when types are inferred, but in order when they are computed.
    if axes != sorted(axes) or any(other != len(axes) for other in ranks.operands[1:]):
        return None
    labels = with_names(free(rank), {axis: Label(Name("axes", axis)) for axis in axes})
    parameters = tuple(labels[axis] for axis in axes)
    return Reading((labels, *[parameters] * (len(ranks.operands) - 1)), (labels,), frozenset({"axes"}))


def quantized(tensors: int, *attributes: str) -> Reader:
    """The first tensors elementwise; scales and zero points along the dimensions that attributes name."""

    def read(node: Node) -> Reading | None:
        ranks = ranks_of(node)
        rank = ranks.results[0]
        special: dict[int, Label] = {}
        if any(value.shape not in ((), (1,)) for value in node.operands[tensors:]):
            places: Mapping[str, Any] = {name: getattr(node.attributes, name, None) for name in attributes}
            for name, place in places.items():
                if place is not None and rank:
                    special.setdefault(int(place) % rank, exact(name))
        labels = with_names(free(rank), special)
        first = tuple(labels[rank - other :] for other in ranks.operands[:tensors])
        rest = ranks.own(tensors)
        return Reading((*first, *rest), (labels,), frozenset(attributes), broadcasts=True)

    return read
