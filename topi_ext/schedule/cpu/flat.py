"""Elementwise blocks over places in memory, where all tensors lie alike, in place of one index for each axis.

A vector that crosses the end of a row has indices that are quotients and remainders of its place. TVM adds
them up to the place again as long as it sees that they are of the same number; where a vector divides the
elements of an image, of several images, it does not, and loads and stores elements one by one.
"""

from typing import Any

import tvm
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map

from topi_ext.extents import fixed, size_of
from topi_ext.ir import holds, loads_of, uses
from topi_ext.schedule.nests import is_plain, nest_of, nested_block, nests_of, with_nests


def flattened(func: tirx.PrimFunc, lanes: int) -> tirx.PrimFunc:
    """The function with one axis in place of several in blocks that read and write its parameters alone.

    Inside of a symbolic axis, the axes are one if vectors of ``lanes`` divide the product of their extents.
    """
    if not isinstance(func.body, SBlockRealize):
        return func
    temporaries = func.body.block.alloc_buffers
    views: list[tirx.DeclBuffer] = []
    nests = [_flat_nest(nest, temporaries, lanes, views) for nest in nests_of(func)]
    return with_nests(func, [*views, *nests]) if views else func


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
    axes = [axis.var for axis in block.iter_vars]
    value = structural_map(block.body.value, (TensorLoad, lambda load: tirx.const(0, load.ty.dtype)))
    return any(uses(value, axis) for axis in axes)


def same_extent(left: Any, right: Any) -> bool:
    """Are two extents the same number, or the same variable?"""
    return bool(left.same_as(right)) or (fixed(left) is not None and fixed(left) == fixed(right))


def _flat_nest(nest: Any, temporaries: Any, lanes: int, views: list[tirx.DeclBuffer]) -> Any:
    """The nest over one axis, with the views that it needs added to ``views``; or as it is."""
    realize = nested_block(nest)
    block = None if realize is None else realize.block
    if block is None or not isinstance(block.body, tirx.BufferStore) or not is_plain(block):
        return nest
    store = block.body
    axes = [axis.var for axis in block.iter_vars]
    if not _are(store.indices, axes) or not lies_as_result(block) or depends_on_place(block):
        return nest
    loads = [load for load in loads_of(store.value) if not _is_one_element(load)]
    if any(holds(temporaries, buffer) for buffer in (store.buffer, *(load.source for load in loads))):
        return nest
    shape = list(store.buffer.shape)
    outside = max((place + 1 for place, extent in enumerate(shape) if fixed(extent) is None), default=0)
    inside = size_of(shape[outside:]) or 0
    if (
        sum(fixed(extent) != 1 for extent in shape[outside:]) < 2
        or inside == 0
        or (outside and inside % lanes)
    ):
        return nest
    extents = [*shape[:outside], inside]
    kept = [*block.iter_vars[:outside], _axis(axes[outside], inside)]
    indices = [axis.var for axis in kept]
    seen: dict[Any, Any] = {}

    def view(buffer: Any) -> Any:
        if buffer not in seen:
            seen[buffer] = tirx.decl_buffer(extents, buffer.dtype, buffer.name)
            views.append(tirx.DeclBuffer(seen[buffer], data=buffer.data))
        return seen[buffer]

    def moved(load: TensorLoad) -> Any:
        return load if _is_one_element(load) else tirx.BufferLoad(view(load.source), indices)

    value = structural_map(store.value, (TensorLoad, moved))
    body = tirx.BufferStore(view(store.buffer), value, indices)
    return nest_of(kept, body, view(store.buffer), block.name_hint)[1]


def _axis(variable: tirx.Var, extent: int) -> tirx.IterVar:
    """A spatial axis named as ``variable``."""
    dtype = variable.ty.dtype
    span = tvm.ir.Range(tirx.const(0, dtype), tirx.const(extent, dtype))
    return tirx.IterVar(span, tirx.Var(variable.name, variable.ty), tirx.IterVar.DataPar)


def _is_one_element(load: TensorLoad) -> bool:
    """Is it the same element for all of the result?"""
    return all(isinstance(index, tirx.IntImm) for index in load.indices)


def _are(indices: Any, axes: list[Any]) -> bool:
    return len(indices) == len(axes) and all(
        index.same_as(axis) for index, axis in zip(indices, axes, strict=True)
    )
