"""Elementwise blocks over fewer and longer axes: those that lie as one in all tensors are one, in views.

A vector that crosses the end of a row has indices that are quotients and remainders of its place. TVM adds
them up to the place again as long as it sees that they are of the same number; where a vector divides the
elements of an image, of several images, it does not, and loads and stores elements one by one. Where it may
not cross, because one of the tensors lies otherwise, short rows are joined to those that lie alike, which are
made of more whole vectors. All other blocks keep their axes, by which they may become parts of longer rows.
"""

from math import prod
from typing import Any

import tvm
from tvm import sym, tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map

from topi_ext.extents import fixed, is_one
from topi_ext.ir import holds, loads_of, substitute, uses
from topi_ext.schedule.cpu.coalescing import dimensions_of, lie_as_one, tensor_of
from topi_ext.schedule.cpu.repeated import cut_repeats
from topi_ext.schedule.nests import is_plain, nest_of, nested_block, nests_of, with_nests

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


def flattened(func: tirx.PrimFunc, lanes: int) -> tirx.PrimFunc:
    """The function with such axes joined in blocks that read and write its parameters by them.

    ``lanes`` are those of a vector, which divides what is joined beside symbolic axes.
    """
    if not isinstance(func.body, SBlockRealize):
        return func
    views: dict[_Place, Any] = {}
    nests = [_flat_nest(nest, func.body.block.alloc_buffers, lanes, views) for nest in nests_of(func)]
    if not views:
        return func
    declared = [tirx.DeclBuffer(view, data=tensor.data) for (tensor, _, _), view in views.items()]
    return with_nests(func, [*declared, *nests])


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


def _flat_nest(nest: Any, temporaries: Any, lanes: int, views: dict[_Place, Any]) -> Any:
    """The nest with cut and joined axes, whose views are added to ``views``; or as it is."""
    realize = nested_block(nest)
    block = None if realize is None else realize.block
    if block is None or not isinstance(block.body, tirx.BufferStore) or not is_plain(block):
        return nest
    ones = {axis.var: _number(0, axis.var) for axis in block.iter_vars if is_one(axis.dom.extent)}
    axes = [axis for axis in block.iter_vars if axis.var not in ones]
    if not axes or (lies_as_result(block) and not _is_mixed(axes, lanes)):
        return nest
    store = substitute(block.body, ones)
    cut = cut_repeats(store, axes)
    if (fixed(axes[-1].dom.extent) or lanes) % lanes == 0 and cut is None:
        # Rows of whole vectors are long enough, and may be parts of longer ones.
        return nest
    groups, tensors = _groups(store, axes, lanes), {}
    if cut is not None:
        longer = _groups(cut.store, cut.axes, lanes)
        # Of a row that is itself repeated a vector would be gathered.
        row = SHORT_ROW if cut.axes[-1] is not axes[-1] else _size(groups[-1])
        if _size(longer[-1]) > row:
            store, axes, groups, tensors = cut.store, cut.axes, longer, cut.tensors
    if len(groups) == len(axes) and not tensors:
        return nest
    joined = [axis.var for group in groups if len(group) > 1 for axis in group]
    accesses = [(access, tensor_of(access)) for access in (*loads_of(store), store)]
    kept = [access for access, tensor in accesses if holds(temporaries, tensors.get(tensor, tensor))]
    if any(tensor_of(access) in tensors for access in kept) or any(
        uses(index, axis) for access in kept for index, _ in dimensions_of(access) for axis in joined
    ):
        return nest
    by_axis = {group[0].var: (group, _joined(group)) for group in groups if len(group) > 1}
    all_axes = [by_axis[group[0].var][1] if len(group) > 1 else group[0] for group in groups]

    def loaded(load: TensorLoad) -> Any:
        if load.source not in tensors and not any(uses(load, axis) for axis in joined):
            return load
        return tirx.BufferLoad(*_moved(load, by_axis, views, tensors))

    value = structural_map(store.value, (TensorLoad, loaded))
    buffer, indices = _moved(store, by_axis, views, tensors)
    return nest_of(all_axes, tirx.BufferStore(buffer, value, indices), buffer, block.name_hint)[1]


def _is_mixed(axes: list[tirx.IterVar], lanes: int) -> bool:
    """Does a vector divide the elements inside of an axis, though not a row, or is their number unknown?"""
    sizes = [fixed(axis.dom.extent) for axis in axes]
    known = [size for size in sizes if size is not None]
    return len(known) < len(sizes) or any(prod(known[place:]) % lanes == 0 for place in range(1, len(known)))


def _groups(store: tirx.BufferStore, axes: list[tirx.IterVar], lanes: int) -> list[list[tirx.IterVar]]:
    """The axes in order, those together that become one."""
    value = _without_loads(store.value)
    sizes = [fixed(axis.dom.extent) for axis in axes]
    groups: list[list[tirx.IterVar]] = []
    for place in reversed(range(len(axes))):
        axis, row = axes[place], groups[0] if groups else []
        outside, inside = (prod(size or 1 for size in part) for part in (sizes[:place], sizes[place:]))
        few = place > 0 and outside < ENOUGH_ROWS and inside > MOST_OF_FEW
        alone = not row or not sizes[place] or few or uses(value, axis.var)
        if not alone and lie_as_one(store, axis.var, row[0].var, fixed(row[0].dom.extent)):
            groups[0] = [axis, *row]
        else:
            groups.insert(0, [axis])
    if None in sizes:
        return [part for group in groups for part in _whole_vectors(group, lanes)]
    return groups


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


def _moved(
    access: Any, by_axis: dict[Any, Any], views: dict[_Place, Any], tensors: dict[Any, Any]
) -> tuple[Any, list[Any]]:
    """The view of a tensor, and its indices there; ``tensors`` are those whose axes were cut."""
    indices, extents, starts = [], [], []
    tensor, left = tensor_of(access), dimensions_of(access)
    while left:
        starts.append(-len(left))
        index, extent = left.pop(0)
        first = next((axis for axis in by_axis if uses(index, axis)), None)
        if first is not None:
            group, joined = by_axis[first]
            inner = _size(group[1:])
            index = joined.var + sym.Analyzer().simplify(index - first) * inner
            extent = extent * inner
            del left[: len(group) - 1]
        indices.append(index)
        extents.append(extent)
    place = tensors.get(tensor, tensor), tensor, tuple(starts)
    if place not in views:
        views[place] = tirx.decl_buffer(extents, tensor.dtype, tensor.name)
    return views[place], indices


def _number(value: int, like: tirx.Var) -> Any:
    return tirx.const(value, like.ty.dtype)
