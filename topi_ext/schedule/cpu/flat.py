"""Blocks over fewer and longer axes: those that lie as one in all tensors are one, in views.

A vector that crosses the end of a row has indices that are quotients and remainders of its place. TVM adds
them up to the place again as long as it sees that they are of the same number; where a vector divides the
elements of an image, of several images, it does not, and loads and stores elements one by one. Where it may
not cross, because one of the tensors lies otherwise, or because sums over other axes have rows by which they
are summed, short rows are joined to those that lie alike, which are made of more whole vectors. All other
blocks keep their axes, by which they may become parts of longer rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import tvm
from tvm import sym, tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map

from topi_ext.extents import fixed, is_one
from topi_ext.ir import holds, loads_of, nodes_of, substitute, uses
from topi_ext.schedule.cpu.coalescing import dimensions_of, lie_as_one, tensor_of
from topi_ext.schedule.cpu.reductions import innermost_reduced, runs_along
from topi_ext.schedule.cpu.repeated import cut_repeats
from topi_ext.schedule.nests import loops_around, nested_block, nests_of, with_body, with_nests

ENOUGH_ROWS = 64
"""Rows that threads can share evenly enough."""

MOST_OF_FEW = 1 << 14
"""Elements of a row beyond which fewer rows are not made, since threads share rows."""

SHORT_ROW = 4
"""Elements of a row that are gathered as fast as they are copied."""

_Place = tuple[Any, Any, tuple[int, ...]]
"""A tensor, itself or one with cut axes of it, and which dimensions of more than one element of that, counted
from the last, begin one of its view.
"""

_Groups = list[list[tirx.IterVar]]
"""The spatial axes of a block in order, those together that become one."""


@dataclass(frozen=True)
class _Flat:
    """A block of one store without its spatial axes of one element: what may be joined.

    ``tensors`` says of each tensor with cut axes of which one it is.
    """

    node: SBlock
    store: tirx.BufferStore
    init: tirx.BufferStore | None
    spatial: list[tirx.IterVar]
    reduced: list[tirx.IterVar]
    tensors: dict[Any, Any] = field(default_factory=dict)

    def accesses(self) -> list[Any]:
        """Its loads and its store."""
        return [*loads_of(self.store), self.store]


def flattened(func: tirx.PrimFunc, lanes: int) -> tirx.PrimFunc:
    """The function with such axes joined in blocks that gain by it, and in all that share a temporary.

    ``lanes`` are those of a vector, which divides what is joined beside symbolic axes. A temporary gets the
    shape by which all of its blocks can use it.
    """
    if not isinstance(func.body, SBlockRealize):
        return func
    temporaries, nests = func.body.block.alloc_buffers, nests_of(func)
    blocks = [_cut_or_whole(_flat_block(nest), temporaries, lanes) for nest in nests]
    gaining = [block is not None and _gains(block, lanes) for block in blocks]
    if not any(gaining):
        return func
    groups = _agreed(blocks, nests, temporaries, lanes)
    moved = _with_sharers(blocks, groups, gaining, temporaries)
    views: dict[_Place, Any] = {}
    joined = [
        _joined_nest(block, own, views) if block is not None and place in moved else nest
        for place, (nest, block, own) in enumerate(zip(nests, blocks, groups, strict=True))
    ]
    if not views:
        return func
    reshaped = {tensor: view for (tensor, _, _), view in views.items() if holds(temporaries, tensor)}
    declared = [
        tirx.DeclBuffer(view, data=tensor.data)
        for (tensor, _, _), view in views.items()
        if tensor not in reshaped
    ]
    return with_nests(func, [*declared, *joined], [reshaped.get(tensor, tensor) for tensor in temporaries])


def lies_as_result(block: SBlock) -> bool:
    """Do all operands of a block have the shape and memory order of its result, or one element?"""
    if not isinstance(block.body, tirx.BufferStore):
        return False
    result, axes = block.writes[0].source, [axis.var for axis in block.iter_vars]
    return all(
        _is_one_element(load)
        or (_are(load.indices, axes) and all(map(same_extent, load.source.shape, result.shape)))
        for load in loads_of(block.body)
    )


def depends_on_place(block: SBlock) -> bool:
    """Does what an element is depend on where it is, as in a triangle of a matrix?"""
    value = _without_loads(block.body.value)
    return any(uses(value, axis.var) for axis in block.iter_vars)


def same_extent(left: Any, right: Any) -> bool:
    """Are two extents the same number, or the same variable?"""
    return bool(left.same_as(right)) or (fixed(left) is not None and fixed(left) == fixed(right))


def _is_one_element(load: TensorLoad) -> bool:
    """Is it the same element for all of the result?"""
    return all(isinstance(index, tirx.IntImm) for index in load.indices)


def _are(indices: Any, axes: list[Any]) -> bool:
    return len(indices) == len(axes) and all(
        index.same_as(axis) for index, axis in zip(indices, axes, strict=True)
    )


def _without_loads(value: Any) -> Any:
    return structural_map(value, (TensorLoad, lambda load: tirx.const(0, load.ty.dtype)))


def _flat_block(nest: Any) -> _Flat | None:
    """What of a nest may be joined; None for one of several blocks, stores or conditions."""
    realize = nested_block(nest)
    if realize is None or fixed(realize.predicate) != 1:
        return None
    block = realize.block
    if not isinstance(block.body, tirx.BufferStore):
        return None
    kinds = [axis.iter_type for axis in block.iter_vars]
    count = kinds.count(tirx.IterVar.DataPar)
    if kinds != [tirx.IterVar.DataPar] * count + [tirx.IterVar.CommReduce] * (len(kinds) - count):
        return None
    if any(fixed(axis.dom.min) != 0 for axis in block.iter_vars):
        return None
    ones = {axis.var: _number(0, axis.var) for axis in block.iter_vars[:count] if is_one(axis.dom.extent)}
    spatial = [axis for axis in block.iter_vars[:count] if axis.var not in ones]
    if not spatial or not (block.init is None or isinstance(block.init, tirx.BufferStore)):
        return None
    init = None if block.init is None else substitute(block.init, ones)
    return _Flat(block, substitute(block.body, ones), init, spatial, list(block.iter_vars[count:]))


def _cut_or_whole(block: _Flat | None, temporaries: Any, lanes: int) -> _Flat | None:
    """The block with cut axes where it repeats tensors and its rows become longer by that; or as it is."""
    cut = None if block is None or block.reduced else cut_repeats(block.store, block.spatial)
    if block is None or cut is None or any(holds(temporaries, tensor) for tensor in cut.tensors.values()):
        return block
    other = replace(block, store=cut.store, spatial=cut.axes, tensors=cut.tensors)
    # Of a row that is itself repeated a vector would be gathered.
    is_repeated = cut.axes[-1] is not block.spatial[-1]
    row = SHORT_ROW if is_repeated else _size(_groups(block, lanes, {})[-1])
    return other if _size(_groups(other, lanes, {})[-1]) > row else block


def _gains(block: _Flat, lanes: int) -> bool:
    """Would longer rows serve a block?

    Rows of whole vectors that repeat nothing are long enough, and may be parts of longer ones.
    """
    if block.tensors:
        return True
    if (fixed(block.spatial[-1].dom.extent) or lanes) % lanes == 0:
        return False
    if block.reduced:
        return not runs_along(block.node, innermost_reduced(block.node).var)
    return not lies_as_result(block.node) or _is_mixed(block.spatial, lanes)


def _agreed(blocks: Sequence[_Flat | None], nests: list[Any], temporaries: Any, lanes: int) -> list[_Groups]:
    """The groups of the axes of each block, such that all join the same dimensions of a temporary."""
    begins: dict[Any, set[int]] = {tensor: set() for tensor in temporaries}
    for block, nest in zip(blocks, nests, strict=True):
        for access in (*loads_of(nest), *nodes_of(nest, tirx.BufferStore)) if block is None else ():
            if holds(temporaries, tensor_of(access)):
                begins[tensor_of(access)] |= {-1 - place for place in range(len(dimensions_of(access)))}
    while True:
        groups = [[] if block is None else _groups(block, lanes, begins) for block in blocks]
        before = {tensor: set(starts) for tensor, starts in begins.items()}
        for block, own in zip(blocks, groups, strict=True):
            for access in _kept(block, temporaries):
                begins[tensor_of(access)] |= {start for start, _, _ in _merged(access, _by_axis(own))}
        if begins == before:
            return groups


def _with_sharers(
    blocks: Sequence[_Flat | None], groups: list[_Groups], gaining: list[bool], temporaries: Any
) -> set[int]:
    """The places of blocks to join: those that gain, and those that use a temporary which these reshape."""
    reshaping = [
        [tensor_of(access) for access in _kept(block, temporaries) if _is_reshaped(access, own)]
        for block, own in zip(blocks, groups, strict=True)
    ]
    moved = {
        place
        for place, (block, own) in enumerate(zip(blocks, groups, strict=True))
        if block is not None and gaining[place] and (block.tensors or len(own) < len(block.spatial))
    }
    while True:
        tensors = [tensor for place in moved for tensor in reshaping[place]]
        sharers = {place for place, own in enumerate(reshaping) if any(holds(tensors, one) for one in own)}
        if sharers <= moved:
            return moved
        moved |= sharers


def _kept(block: _Flat | None, temporaries: Any) -> list[Any]:
    """How a block accesses temporaries."""
    accesses = [] if block is None else block.accesses()
    return [access for access in accesses if holds(temporaries, tensor_of(access))]


def _is_reshaped(access: Any, groups: _Groups) -> bool:
    """Are dimensions joined in what is accessed?"""
    return len(_merged(access, _by_axis(groups))) < len(dimensions_of(access))


def _joined_nest(block: _Flat, groups: _Groups, views: dict[_Place, Any]) -> Any:
    """The nest of a block with cut and joined axes, whose views are added to ``views``."""
    by_axis = _by_axis(groups)
    axes = [by_axis[group[0].var][1] if len(group) > 1 else group[0] for group in groups]

    def loaded(load: TensorLoad) -> Any:
        is_kept = load.source not in block.tensors and not _is_joined(load, by_axis)
        return load if is_kept else tirx.BufferLoad(*_moved(load, by_axis, views, block.tensors))

    def stored(store: tirx.BufferStore) -> tirx.BufferStore:
        buffer, indices = _moved(store, by_axis, views, block.tensors)
        return tirx.BufferStore(buffer, structural_map(store.value, (TensorLoad, loaded)), indices)

    init = None if block.init is None else stored(block.init)
    return loops_around(with_body(block.node, [*axes, *block.reduced], stored(block.store), init))


def _is_mixed(axes: list[tirx.IterVar], lanes: int) -> bool:
    """Does a vector divide the elements inside of an axis, though not a row, or is their number unknown?

    Or do short rows divide a vector, which TVM has as quotients and remainders of each of its lanes then.
    """
    sizes = [fixed(axis.dom.extent) for axis in axes]
    known = [size for size in sizes if size is not None]
    inside = [prod(known[place:]) for place in range(1, len(known))]
    return len(known) < len(sizes) or any(size % lanes == 0 or lanes % size == 0 for size in inside)


def _groups(block: _Flat, lanes: int, begins: dict[Any, set[int]]) -> _Groups:
    """The spatial axes of a block in order, those together that become one.

    None are joined across the dimensions at which a temporary ``begins`` a new one.
    """
    value = _without_loads(block.store.value)
    axes = block.spatial
    # Threads share single vectors then, however few rows there are.
    is_one_row = lies_as_result(block.node) and not depends_on_place(block.node)
    sizes = [fixed(axis.dom.extent) for axis in axes]
    groups: _Groups = []
    for place in reversed(range(len(axes))):
        axis, row = axes[place], groups[0] if groups else []
        outside, inside = (prod(size or 1 for size in part) for part in (sizes[:place], sizes[place:]))
        few = not is_one_row and place > 0 and outside < ENOUGH_ROWS and inside > MOST_OF_FEW
        alone = (
            not row or not sizes[place] or few or uses(value, axis.var) or _begins(block, row[0].var, begins)
        )
        if not alone and lie_as_one(block.store, axis.var, row[0].var, fixed(row[0].dom.extent)):
            groups[0] = [axis, *row]
        else:
            groups.insert(0, [axis])
    if None in sizes:
        return [part for group in groups for part in _whole_vectors(group, lanes)]
    return groups


def _begins(block: _Flat, axis: tirx.Var, begins: dict[Any, set[int]]) -> bool:
    """Must a dimension that ``axis`` indexes be the first one of its view?"""
    for access in block.accesses():
        dimensions = dimensions_of(access)
        for place, (index, _) in enumerate(dimensions):
            if uses(index, axis) and place - len(dimensions) in begins.get(tensor_of(access), ()):
                return True
    return False


def _whole_vectors(group: list[tirx.IterVar], lanes: int) -> list[list[tirx.IterVar]]:
    """The group if vectors divide it, else each of its axes by itself."""
    return [group] if len(group) == 1 or _size(group) % lanes == 0 else [[axis] for axis in group]


def _size(group: list[tirx.IterVar]) -> int:
    """The elements along axes together; 0 where that is not known."""
    return prod(fixed(axis.dom.extent) or 0 for axis in group)


def _joined(group: list[tirx.IterVar]) -> tirx.IterVar:
    """One axis for several, named as the first of them."""
    variable = group[0].var
    span = tvm.ir.Range(_number(0, variable), _number(_size(group), variable))
    return tirx.IterVar(span, tirx.Var(variable.name, variable.ty), tirx.IterVar.DataPar)


def _by_axis(groups: _Groups) -> dict[Any, tuple[list[tirx.IterVar], tirx.IterVar]]:
    """Of each group of several axes, by the variable of its first one: the group, and the axis for all."""
    return {group[0].var: (group, _joined(group)) for group in groups if len(group) > 1}


def _is_joined(access: Any, by_axis: dict[Any, Any]) -> bool:
    return any(uses(index, axis) for index in access.indices for axis in by_axis)


def _merged(access: Any, by_axis: dict[Any, Any]) -> list[tuple[int, Any, Any]]:
    """Of each dimension of a view: which of the tensor's begins it, counted from the last; index; extent."""
    merged = []
    left = dimensions_of(access)
    while left:
        start = -len(left)
        index, extent = left.pop(0)
        first = next((axis for axis in by_axis if uses(index, axis)), None)
        if first is not None:
            group, joined = by_axis[first]
            inner = _size(group[1:])
            index = joined.var + sym.Analyzer().simplify(index - first) * inner
            extent = extent * inner
            del left[: len(group) - 1]
        merged.append((start, index, extent))
    return merged


def _moved(
    access: Any, by_axis: dict[Any, Any], views: dict[_Place, Any], tensors: dict[Any, Any]
) -> tuple[Any, list[Any]]:
    """The view of a tensor, and its indices there; ``tensors`` are those whose axes were cut."""
    tensor, merged = tensor_of(access), _merged(access, by_axis)
    place = tensors.get(tensor, tensor), tensor, tuple(start for start, _, _ in merged)
    if place not in views:
        views[place] = tirx.decl_buffer([extent for _, _, extent in merged], tensor.dtype, tensor.name)
    return views[place], [index for _, index, _ in merged]


def _number(value: int, like: tirx.Var) -> Any:
    return tirx.const(value, like.ty.dtype)
