"""Open extents that a program takes for equal, however they are written.

Features of two images of any size can be added where ``1 + (h - 1) // 2`` of one is that of the other. Export
notes this in a guard, which is checked when the program runs, and from there on takes either extent for the
other. TVM has no such notes, and does not know the shape of the sum: operands are given the extents of
others. Extents that the data decide have no example to compare; those of one expression are equal.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tvm import relax, sym, tirx

from relay_layout.frontend.torch.node import Converter, argument, is_negative, value_of
from relay_layout.ir import Expression, Extent, dtype_of, same_extent, shape_of


def agreeing(program: Any, own: Mapping[str, Converter]) -> dict[str, Converter]:
    """Converters that give operands one shape, for operations of a decomposed program that need it.

    They end in those of ``own`` by name, and in TVM's for operations that these lack.
    """
    nodes = [node for node in program.graph.nodes if _is_open(node) and _agreement(node) is not None]
    of_tvm: dict[str, Callable[[Any], Expression]] = {}

    def with_agreement(name: str) -> Converter:
        def convert(node: Any, importer: Any) -> Expression:
            for operand, extents in (_agreement(node) or _nothing)(node, importer):
                _cast(importer, operand, extents)
            if name in own:
                return own[name](node, importer)
            of_tvm.update(of_tvm or importer.create_convert_map())
            return of_tvm[name](node)

        return convert

    return {name: with_agreement(name) for name in {node.target.__name__ for node in nodes}}


Wanted = list[tuple[Any, dict[int, Extent]]]
"""Operands, and the extents that they are to have by dimension."""


def _is_open(node: Any) -> bool:
    """Whether it computes something of open extents, or from that."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    extents = [extent for value in values for extent in getattr(value, "shape", ())]
    return node.op == "call_function" and any(isinstance(extent, torch.SymInt) for extent in extents)


def _agreement(node: Any) -> Callable[[Any, Any], Wanted] | None:
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    if torch.Tag.pointwise in node.target.tags:
        return _of_elements
    return _BY_NAME.get(node.target.__name__)


def _nothing(_node: Any, _importer: Any) -> Wanted:
    return []


def _of_elements(node: Any, importer: Any) -> Wanted:
    """Operands of one shape but for extents of one, the last dimensions beside each other."""
    operands = list(_tensors(node.all_input_nodes, importer))
    return _alike(operands, {operand: _last(operand, node) for operand in operands}, node, importer)


def _of_parts(node: Any, importer: Any) -> Wanted:
    """``cat(tensors, dim)``: operands that have all dimensions but one in common."""
    return _but_one(node.args[0], argument(node, 1, "dim", 0), node, importer)


def _of_replaced(node: Any, importer: Any) -> Wanted:
    """``slice_scatter(data, source, dim)``: all dimensions but one in common."""
    return _but_one(node.args[:2], argument(node, 2, "dim", 0), node, importer)


def _but_one(nodes: Sequence[Any], but: int, node: Any, importer: Any) -> Wanted:
    operands = list(_tensors(nodes, importer))
    rank = len(node.meta["val"].shape)
    axis = int(but) % max(1, rank)
    places = {operand: {own: own for own in range(rank) if own != axis} for operand in operands}
    return _alike(operands, places, node, importer)


def _of_matrices(node: Any, importer: Any) -> Wanted:
    """``mm(left, right)`` and ``addmm(addend, left, right)``: as many columns as there are rows."""
    left, right = node.args[-2:]
    if left is right or len(list(_tensors([left, right], importer))) < 2:
        return []
    columns, rows = (shape_of(importer.env[operand]) or () for operand in (left, right))
    count = rows[-2] if isinstance(rows[-2], int) else columns[-1]
    return [(left, {len(columns) - 1: count}), (right, {len(rows) - 2: count})]


def _of_stacked_matrices(node: Any, importer: Any) -> Wanted:
    """``bmm(left, right)``: as many matrices on both sides, too."""
    operands = list(_tensors(node.args[-2:], importer))
    alike = _alike(operands, {operand: {0: 0} for operand in operands}, node, importer)
    return [*alike, *_of_matrices(node, importer)]


def _of_copies(node: Any, importer: Any) -> Wanted:
    """``expand(data, size)``: dimensions that stay have the extents that are asked for; -1 asks for none."""
    sizes = dict(enumerate(value_of(importer, size) for size in node.args[1]))
    asked = {place: size for place, size in sizes.items() if not is_negative(size)}
    return [
        (
            operand,
            {
                own: asked[place]
                for own, place in _last(operand, node).items()
                if place in asked and _is(operand, own, node, place)
            },
        )
        for operand in _tensors(node.args[:1], importer)
    ]


_BY_NAME: dict[str, Callable[[Any, Any], Wanted]] = {
    "_int_mm.default": _of_matrices,
    "addmm.default": _of_matrices,
    "baddbmm.default": _of_stacked_matrices,
    "bmm.default": _of_stacked_matrices,
    "cat.default": _of_parts,
    "copy.default": _of_elements,
    "expand.default": _of_copies,
    "mm.default": _of_matrices,
    "slice_scatter.default": _of_replaced,
}


def _alike(
    operands: Sequence[Any], places: Mapping[Any, Mapping[int, int]], node: Any, importer: Any
) -> Wanted:
    """For each dimension of the result the extent of all operands, the one to which others can best be cast.

    ``places`` are the dimensions of the result by those of each operand.
    """
    chosen: dict[int, Extent] = {}
    wanted: Wanted = []
    for operand in operands:
        extents = shape_of(importer.env[operand]) or ()
        alike = {own: place for own, place in places[operand].items() if _is(operand, own, node, place)}
        wanted.append((operand, alike))
        for own, place in alike.items():
            if place not in chosen or is_plainer(extents[own], chosen[place]):
                chosen[place] = extents[own]
    return [(operand, {own: chosen[place] for own, place in alike.items()}) for operand, alike in wanted]


def is_plainer(extent: Extent, other: Extent) -> bool:
    """Whether tensors are rather cast to this one: to numbers, and to what is computed before variables.

    TVM would put what a tensor is cast from in place of a variable.
    """
    if isinstance(other, tirx.Var):
        return not isinstance(extent, tirx.Var)
    return isinstance(extent, int) and not isinstance(other, int)


def _tensors(nodes: Sequence[Any], importer: Any) -> Any:
    """Those operands that are tensors of a known rank, in the program as in the module."""
    for node in dict.fromkeys(nodes):
        value = importer.env.get(node)
        if not isinstance(getattr(value, "ty", None), relax.TensorType):
            continue
        shape = getattr(node.meta.get("val"), "shape", None)
        if shape is not None and len(shape_of(value) or ()) == len(shape):
            yield node


def _last(operand: Any, node: Any) -> dict[int, int]:
    """The dimensions of a result by those of an operand, where the last ones are beside each other."""
    rank = len(operand.meta["val"].shape)
    behind = len(node.meta["val"].shape) - rank
    return {own: own + behind for own in range(rank)}


def _is(operand: Any, own: int, node: Any, place: int) -> bool:
    """Whether the extent of an operand is that of the result, and no one of which there are copies."""
    extent, found = operand.meta["val"].shape[own], node.meta["val"].shape[place]
    example = _example(extent)
    return _is_written_alike(extent, found) if example is None else example == _example(found) != 1


def _example(extent: Any) -> int | None:
    """What an extent is in the example with which a program was exported, which its guards keep to."""
    if isinstance(extent, int):
        return extent
    return int(extent.node.hint) if extent.node.has_hint() else None


def _is_written_alike(extent: Any, other: Any) -> bool:
    """Whether two extents are one expression of what the data decide, which no example has."""
    open_ones = isinstance(extent, torch.SymInt) and isinstance(other, torch.SymInt)
    return open_ones and extent.node.expr == other.node.expr


def _cast(importer: Any, operand: Any, extents: Mapping[int, Extent]) -> None:
    """Let the operand have ``extents``, here and wherever it is read from now on."""
    value = importer.env[operand]
    shape = list(shape_of(value) or ())
    equal = sym.Analyzer().can_prove_equal
    for axis, extent in extents.items():
        held = shape[axis]
        numbers = isinstance(held, int) and isinstance(extent, int)
        if numbers or same_extent(held, extent) or equal(held, extent):
            continue
        shape[axis] = extent
    if any(map(is_computed_of, shape_of(value) or (), shape)):
        importer.env[operand] = importer.block_builder.emit(relax.op.reshape(value, relax.ShapeExpr(shape)))
    elif not all(map(same_extent, shape, shape_of(value) or ())):
        kind = relax.TensorType(relax.ShapeExpr(shape), dtype_of(value))
        importer.env[operand] = importer.block_builder.match_cast(value, kind)


def is_computed_of(held: Extent, extent: Extent) -> bool:
    """Whether what is held is computed of the variable that it is to be: TVM would replace that endlessly."""
    if not isinstance(extent, tirx.Var) or isinstance(held, int) or same_extent(held, extent):
        return False
    return any(extent.same_as(variable) for variable in tirx.analysis.undefined_vars(held))
