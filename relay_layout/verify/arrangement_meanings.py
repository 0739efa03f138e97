"""Readers of operators that bring elements together, take them apart, repeat, pick or make them."""

from typing import Any

from tvm import relax

from relay_layout.graph import Node
from relay_layout.ir import as_extent, is_one, is_static
from relay_layout.verify.reading import (
    Kind,
    Label,
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


def concatenation(node: Node) -> Reading | None:
    """Operands one after another along ``axis``."""
    ranks = ranks_of(node)
    if node.attributes.axis is None:
        return None
    labels = _end_to_end(node, ranks.results[0])
    return Reading((labels,) * len(ranks.operands), (labels,), frozenset({"axis"}))


def splitting(node: Node) -> Reading | None:
    """Parts one after another along ``axis``; where they end is in their shapes."""
    ranks = ranks_of(node)
    labels = _end_to_end(node, ranks.operands[0])
    return Reading((labels,), (labels,) * len(ranks.results), frozenset({"axis", "indices_or_sections"}))


def _end_to_end(node: Node, rank: int) -> tuple[Label, ...]:
    """Labels of tensors that lie one after another along ``axis``."""
    return with_names(free(rank), {int(node.attributes.axis) % rank: Label(Name("axis", 0, Kind.OUTER))})


def stacking(node: Node) -> Reading | None:
    """Operands side by side along a new dimension."""
    ranks = ranks_of(node)
    rank = ranks.results[0]
    axis = int(node.attributes.axis or 0) % rank
    labels = free(rank - 1)
    result = (*labels[:axis], exact("axis"), *labels[axis:])
    return Reading((labels,) * len(ranks.operands), (result,), frozenset({"axis"}))


def slicing(node: Node) -> Reading | None:
    """Parts between known bounds, in elements of the dimension they cut."""
    bounds = bounds_of(node)
    if bounds is None:
        return None
    shape = node.operands[0].shape or ()
    labels, starts = list(free(len(shape))), {}
    for axis, (begin, end, stride) in bounds.items():
        extent = shape[axis]
        numbers = begin, end, stride
        if not is_static((*numbers, extent)) or stride < 1:
            text = " ".join(map(str, numbers))
            labels[axis] = Label(Name(f"sliced with {text}", axis, Kind.WHOLE))
            continue
        begin, end = (min(max(edge + extent if edge < 0 else edge, 0), extent) for edge in (begin, end))
        if (begin, end, stride) == (0, extent, 1):
            continue
        name = Name(f"sliced from {begin} to {end} by {stride}", axis, Kind.WHOLE)
        if stride == 1:
            name = Name("sliced", axis, Kind.OUTER)
            starts[name] = (begin, end)
        labels[axis] = Label(name)
    return Reading((tuple(labels),), (tuple(labels),), reads_arguments=True, amounts=starts)


def bounds_of(node: Node) -> dict[int, tuple[Any, Any, Any]] | None:
    """Begin, end and stride by dimension, from the arguments; None where the dimensions are not ranks."""
    lists: list[list[Any]] = []
    for argument in node.expression.args[1:]:
        if not isinstance(argument, relax.Tuple):
            return None
        lists.append([as_extent(entry) for entry in argument.fields])
    if len(lists) < 3 or not all(isinstance(axis, int) for axis in lists[0]):
        return None
    axes, begins, ends = lists[:3]
    strides = lists[3] if len(lists) > 3 else [1] * len(axes)
    rank = node.operands[0].rank
    if not rank:
        return None
    places = [axis % rank for axis in axes]
    if not len(axes) == len(begins) == len(ends) == len(strides) or len(set(places)) != len(places):
        return None
    return dict(zip(places, zip(begins, ends, strides, strict=True), strict=True))


def padding(node: Node) -> Reading | None:
    """Elements before and after, by dimension."""
    ranks = ranks_of(node)
    widths = integers(node.attributes.pad_width)
    if len(widths) != 2 * ranks.operands[0]:
        return None
    labels, amounts = list(free(ranks.operands[0])), {}
    constant = str(node.attributes.pad_mode) == "constant"
    for place, pair in enumerate(zip(widths[::2], widths[1::2], strict=True)):
        if pair == (0, 0):
            continue
        name = Name(f"padded by {pair}", place, Kind.WHOLE)
        if constant:
            name = Name("padded", place, Kind.OUTER)
            amounts[name] = pair
        labels[place] = Label(name)
    # A value to pad with may be an operand.
    rest = ranks.own()
    return Reading((tuple(labels), *rest), (tuple(labels),), frozenset({"pad_width"}), amounts=amounts)


def tiling(node: Node) -> Reading | None:
    """Copies along dimensions, which count from the last one."""
    ranks = ranks_of(node)
    rank, before = ranks.results[0], ranks.operands[0]
    repeats = integers(node.attributes.repeats)
    repeats = [1] * (rank - len(repeats)) + repeats
    special = {
        place: Label(Name(f"repeated {count} times", place, Kind.OUTER))
        for place, count in enumerate(repeats)
        if count != 1
    }
    labels = with_names(free(rank), special)
    return Reading((labels[rank - before :],), (labels,), frozenset({"repeats"}))


def broadcast(node: Node) -> Reading | None:
    """One element repeated along dimensions, which count from the last one."""
    ranks = ranks_of(node)
    rank, before = ranks.results[0], ranks.operands[0]
    source = (1,) * (rank - before) + tuple(node.operands[0].shape or ())
    special = {
        place: Label(Name("broadcast", place)) for place, extent in enumerate(source) if is_one(extent)
    }
    labels = with_names(free(rank), special)
    operand = tuple(
        label if place not in special else Label(Name("one element", place))
        for place, label in enumerate(labels)
    )
    return Reading((operand[rank - before :],), (labels,), reads_arguments=True)


def filling(node: Node) -> Reading | None:
    """One value everywhere; the shape is an argument, the value perhaps an operand."""
    ranks = ranks_of(node)
    if any(ranks.operands):
        return None
    labels = free(ranks.results[0], "filled")
    return Reading(ranks.own(0), (labels,), reads_arguments=True)


def contraction(node: Node) -> Reading | None:
    """An einsum whose subscripts name every dimension once in each term."""
    ranks = ranks_of(node)
    text = str(node.attributes.subscripts).replace(" ", "")
    if text.count("->") != 1:
        return None
    before, after = text.split("->")
    terms = [*before.split(","), after]
    if [len(term) for term in terms] != [*ranks.operands, *ranks.results] or any(
        not term.isalpha() or len(set(term)) != len(term) for term in terms if term
    ):
        return None
    labels = [
        tuple(Label(Name("" if letter in after else "contracted", ord(letter))) for letter in term)
        for term in terms
    ]
    return Reading(tuple(labels[:-1]), (labels[-1],), frozenset({"subscripts"}))


def indexed(scatters: bool) -> Reader:
    """gather_nd and scatter_nd: leading dimensions are found by indices, in order; the others are free."""

    def read(node: Node) -> Reading | None:
        ranks = ranks_of(node)
        width = (node.operands[1].shape or (None,))[-1]
        if not isinstance(width, int):
            return None
        rank, indices = ranks.operands[0], own(1, ranks.operands[1])
        prefix = width + (0 if scatters else int(node.attributes.batch_dims))
        labels = with_names(free(rank), {place: exact(f"indexed {place}") for place in range(prefix)})
        found = (*indices[:-1], *labels[prefix:])
        if scatters:
            return Reading((labels, indices, found), (labels,))
        return Reading((labels, indices), (found,))

    return read


def reversing(node: Node) -> Reading | None:
    """Sequences of given lengths along one dimension, one of them at each index of another."""
    ranks = ranks_of(node)
    if len(ranks.operands) != 2:
        return None
    rank = ranks.operands[0]
    special = {
        int(node.attributes.seq_axis) % rank: exact("seq_axis"),
        int(node.attributes.batch_axis) % rank: exact("batch_axis"),
    }
    labels = with_names(free(rank), special)
    return Reading((labels, own(1, ranks.operands[1])), (labels,), frozenset({"seq_axis", "batch_axis"}))


def taking(node: Node) -> Reading | None:
    """Elements along ``axis`` by indices, whose dimensions take its place."""
    ranks = ranks_of(node)
    if node.attributes.axis is None:
        return None
    # A single index may be an argument that is no tensor.
    rank, indices = ranks.operands[0], free(ranks.operands[1] if len(ranks.operands) > 1 else 0, "indices")
    axis = int(node.attributes.axis) % rank
    labels = with_names(free(rank), {axis: exact("axis")})
    result = (*labels[:axis], *indices, *labels[axis + 1 :])
    return Reading((labels, indices)[: len(ranks.operands)], (result,), frozenset({"axis"}))


def one_hot(node: Node) -> Reading | None:
    """Indices spread along a new dimension."""
    ranks = ranks_of(node)
    rank = ranks.results[0]
    axis = int(node.attributes.axis) % rank
    labels = free(rank - 1)
    rest = ranks.own()
    return Reading((labels, *rest), ((*labels[:axis], exact("axis"), *labels[axis:]),), frozenset({"axis"}))


def quantized_concatenation(node: Node) -> Reading | None:
    """Tensors, then a scale for each, a zero point for each, and two of the result."""
    ranks = ranks_of(node)
    count = (len(node.operands) - 2) // 3
    if count < 1:
        return None
    labels = _end_to_end(node, ranks.results[0])
    rest = ranks.own(count)
    return Reading((*[labels] * count, *rest), (labels,), frozenset({"axis"}))
