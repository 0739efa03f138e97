"""Operands whose extents have to be equal, where only the sizes of inputs tell whether they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm import relax, tirx

from relay_layout.frontend.extents.arithmetic import same
from relay_layout.frontend.identifiers import identifier
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Extent, is_one, is_static

BROADCASTING = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Sum", "Mean", "Max", "Min", "PRelu", "Where"),
        *("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"),
    )
)
"""Operators whose operands have equal extents, counted from the last, but for those that are 1."""

_LINED_UP_BEFORE = 7
"""Opsets before this one line operands up with an axis that the node names."""


def agreeing(node: Node) -> Node:
    """The node with operands whose extents TVM can tell to be equal, where it needs them to be.

    Raises :class:`.Assumption` where they are for some sizes of inputs alone.
    """
    if node.operator == "Concat":
        rank = len(shape_of(node.input(0)))
        joined = node.axis_given(rank, default=1 if node.opset < 4 else 0) - rank
        return replace(node, inputs=_agreeing(node, broadcasts=False, but=joined))
    if node.operator in BROADCASTING and node.opset >= _LINED_UP_BEFORE:
        return replace(node, inputs=_agreeing(node, broadcasts=True))
    return node


def added(node: Node, left: Value, right: Value) -> Any:
    """The sum of two tensors that broadcast, bound to a variable, with extents as in :func:`agreeing`."""
    operands = _agreeing(replace(node, inputs=(left, right)), broadcasts=True)
    return node.emit(relax.op.add(*map(node.expression, operands)), "sum")


def _agreeing(node: Node, *, broadcasts: bool, but: int = 0) -> tuple[Value, ...]:
    """The inputs with equal extents along all axes, counted from the last, but one that is joined."""
    try:
        shapes = [[] if value is None else shape_of(value) for value in node.inputs]
    except Unsupported:
        return node.inputs
    goals: dict[int, Extent] = {}
    for axis in range(-max(map(len, shapes), default=0), 0):
        extents = [shape[axis] for shape in shapes if len(shape) >= -axis]
        if axis != but:
            goals[axis] = _goal(
                node, [each for each in extents if not (broadcasts and is_one(each))], broadcasts
            )
    return tuple(_agreed(node, value, shape, goals) for value, shape in zip(node.inputs, shapes, strict=True))


def _goal(node: Node, extents: Sequence[Extent], broadcasts: bool) -> Extent | None:
    """The extent that all have; None where TVM can tell that they are equal, or nobody can.

    Extents that the data decide have to be equal where none may be 1.
    """
    first, *others = extents or [1]
    others = [other for other in others if not same(first, other)]
    numbers = {extent for extent in (first, *others) if isinstance(extent, int)}
    if len(numbers) > 1:
        return None
    if others and not broadcasts and any(map(node.counts.reads_counts, (first, *others))):
        return _most_known(node, [first, *others])
    if not all([node.requirements.assume_equal(first, other) for other in others]):
        return None
    return _common([first, *others]) if others else None


def _common(extents: Sequence[Extent]) -> Extent:
    """The one of extents that are equal to which the others can be cast: a number if there is one."""
    numbers = [extent for extent in extents if isinstance(extent, int)]
    # TVM would put what a tensor is cast from in place of a variable.
    return next(iter(numbers or [extent for extent in extents if not isinstance(extent, tirx.Var)]))


def _most_known(node: Node, extents: Sequence[Extent]) -> Extent:
    """A number if there is one among extents, else one that the sizes of inputs tell, else the first."""
    told = [extent for extent in extents if not node.counts.reads_counts(extent)]
    return next((extent for extent in told if isinstance(extent, int)), (told or extents)[0])


def _agreed(node: Node, value: Value, shape: Sequence[Extent], goals: dict[int, Extent | None]) -> Value:
    """``value`` with the extents of ``goals``, by axis counted from the last, None where they are right."""
    found = list(shape)
    for axis, goal in goals.items():
        if goal is not None and len(shape) >= -axis and not is_one(shape[axis]):
            found[axis] = goal
    if all(map(same, shape, found)):
        return value
    if any(
        not same(old, new) and node.counts.reads_counts(old) for old, new in zip(shape, found, strict=True)
    ):
        # TVM would take a variable that is cast to another for the same.
        return node.emit(relax.op.reshape(node.expression(value), relax.ShapeExpr(found)), "agreeing")
    kind = relax.TensorType(found, dtype_of(value))
    return node.builder.match_cast(node.expression(value), kind, identifier(f"{node.outputs[0]}_agreeing"))


def with_extents(node: Node, data: Value, due: Sequence[Extent]) -> Value | None:
    """A tensor with the extents that are due, which is checked in each call.

    None where they differ, or data decide whether two are equal of which neither is a number. Raises
    :class:`.Assumption` where they are equal for some sizes of inputs alone.
    """
    shape = shape_of(data)
    if len(shape) != len(due):
        return None
    for pair in zip(shape, due, strict=True):
        # What may not run asks nothing of inputs: the cast checks it where it runs, as what data decide.
        if node.requirements.assume_equal(*pair):
            continue
        has_number = any(isinstance(extent, int) for extent in pair)
        if is_static(pair) or (not has_number and any(map(node.counts.reads_counts, pair))):
            return None
    if all(map(same, shape, due)):
        return data
    kind = relax.TensorType(list(due), dtype_of(data))
    return node.builder.match_cast(node.expression(data), kind, identifier(f"{node.outputs[0]}_fitting"))


def joinable(node: Node, left: Value, right: Value) -> tuple[Value, Value]:
    """Factors of a matrix product, of which one has as many columns as the other has rows.

    Raises :class:`.Assumption` where they have for some sizes of inputs alone.
    """
    columns, rows = shape_of(left), shape_of(right)
    if not columns or not rows:
        return left, right
    pair, place = (columns[-1], rows[max(len(rows) - 2, 0)]), -min(len(rows), 2)
    if same(*pair) or is_static(pair):
        return left, right
    # That data decide on a number of columns is checked by the cast alone.
    if not node.requirements.assume_equal(*pair) and not any(isinstance(extent, int) for extent in pair):
        raise Unsupported(
            f"multiplies {written(columns)} with {written(rows)}, whose extents may or may not fit: "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    count = _common(pair)
    return _agreed(node, left, columns, {-1: count}), _agreed(node, right, rows, {place: count})


def contractible(node: Node, operands: Sequence[Value], terms: Sequence[str]) -> list[Value]:
    """Operands of an einsum, in which dimensions of one letter have one extent, but for those that are 1.

    ``terms`` have a letter for each dimension of an operand; dots stand for any number of them. Raises
    :class:`.Assumption` where extents are equal for some sizes of inputs alone.
    """
    shapes = list(map(shape_of, operands))
    letters = [
        {axis: letter for axis, letter in _by_axis(term, len(shape)).items() if not is_one(shape[axis])}
        for term, shape in zip(terms, shapes, strict=True)
    ]
    extents: dict[str, list[Extent]] = {}
    for named, shape in zip(letters, shapes, strict=True):
        for axis, letter in named.items():
            extents.setdefault(letter, []).append(shape[axis])
    goals = {letter: _goal(node, found, broadcasts=True) for letter, found in extents.items()}
    return [
        _agreed(node, value, shape, {axis: goals[letter] for axis, letter in named.items()})
        for value, shape, named in zip(operands, shapes, letters, strict=True)
    ]


def _by_axis(term: str, rank: int) -> dict[int, str]:
    """The letters of an operand by axis, counted from the last; Unsupported where it has other dimensions."""
    before, dots, after = term.partition("...")
    if len(before) + len(after) > rank or (not dots and len(before) != rank):
        raise Unsupported(f"names dimensions '{term}' of a tensor that has {rank}")
    return {place - rank: letter for place, letter in enumerate(before)} | {
        place - len(after): letter for place, letter in enumerate(after)
    }


def with_channels(node: Node, data: Value, channels: Extent) -> Value:
    """An image with as many channels as the weight that it is convolved with takes.

    Raises :class:`.Assumption` where it has as many for some sizes of inputs alone.
    """
    shape = shape_of(data)
    if is_static([shape[1]]) or not isinstance(channels, int):
        return data
    # That data decide on a number of channels is checked by the cast alone.
    node.requirements.assume_equal(shape[1], channels)
    return _agreed(node, data, shape, {1 - len(shape): channels})
