"""Inlining: which blocks of a function keep loops of their own; the others are inlined into their readers.

Several rules inspect the inlined function before one of them takes it, so the result is cached. If all blocks
are plain, they are inlined in one pass: TVM's ``compute_inline`` rebuilds the function for each block, which
is quadratic and takes seconds for a concatenation of a hundred tensors.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tvm
from tvm import s_tir, sym, tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock as SBlockNode
from tvm.s_tir import SBlockRealize
from tvm_ffi import structural_map

from topi_ext.extents import fixed, is_one
from topi_ext.ir import IF_THEN_ELSE, holds, loads_of, nodes_of, substitute
from topi_ext.schedule.blocks import (
    child_blocks,
    has_reduction,
    inline_small,
    is_reduction,
    is_repeated_long,
    open_schedule,
)
from topi_ext.schedule.conditionals import without_settled
from topi_ext.schedule.nests import nested_block, nests_of, with_body, with_nests
from topi_ext.schedule.sharing import is_shared, would_repeat

_DIVISIONS = tirx.FloorDiv, tirx.FloorMod


@lru_cache(maxsize=4)
def inlined(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with those of its blocks inlined that need no loops of their own, and simple indices; a
    RuntimeError where TVM takes no schedule of one of several steps.
    """
    found = _inlined(func)
    body = without_settled(found.body)
    return _with_simple_indices(found if body.same_as(found.body) else found.with_body(body))


def _inlined(func: tirx.PrimFunc) -> tirx.PrimFunc:
    if only_block(func) is not None:
        return func
    plain = _plain_blocks(func)
    if plain is not None:
        return _inlined_at_once(func, plain)
    sch = open_schedule(func)
    for block in child_blocks(sch):
        if not (is_reduction(sch, block) or is_shared(sch, block)):
            inline_small(sch, block)
    return sch.mod["main"]


def only_block(func: tirx.PrimFunc) -> SBlockNode | None:
    """The block of a function with a single block in a perfect loop nest; None for other functions."""
    nests = nests_of(func) if isinstance(func.body, SBlockRealize) else []
    realize = nested_block(nests[0]) if len(nests) == 1 else None
    return None if realize is None else realize.block


def _with_simple_indices(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with indices simplified by the conditions under which they are used.

    Slices, shifted rows and paddings in a row leave divisions in indices, most of which are trivial within
    the bounds of the conditions; so do tensors that are reshaped. This must happen while indices are made of
    block axes: once they are made of loops, TVM cannot simplify them, contiguous elements are gathered, and
    products of divisors may exceed int32.
    """
    blocks = nodes_of(func.body, SBlockNode)
    if any(map(_divides_under_condition, blocks)):
        return s_tir.transform.StmtSimplify()(tvm.IRModule({"main": func}))["main"]
    if any(map(_divides_sums, blocks)):
        return func.with_body(structural_map(func.body, (SBlockNode, _with_simple_loads)))
    return func


def _divides_under_condition(block: SBlockNode) -> bool:
    """Does a block load, under a condition, from an index that contains a division?"""
    store = block.body
    # Of hundreds of tensors joined, each condition holds all that follow: most have no division.
    if not isinstance(store, tirx.BufferStore) or not nodes_of(store.value, _DIVISIONS):
        return False
    calls = nodes_of(store.value, tvm.ir.Call)
    chosen = [load for call in calls if call.op.name == IF_THEN_ELSE for load in loads_of(call)]
    return any(nodes_of(index, _DIVISIONS) for load in chosen for index in load.indices)


def _divides_sums(block: SBlockNode) -> bool:
    """Does a block load from an index in which more than an axis is divided?"""
    if not isinstance(block.body, tirx.BufferStore):
        return False
    indices = [index for load in loads_of(block.body.value) for index in load.indices]
    parts = [part for index in indices for part in nodes_of(index, _DIVISIONS)]
    return any(not isinstance(part.a, tirx.Var) for part in parts)


def _with_simple_loads(block: SBlockNode) -> SBlockNode:
    """The block with the indices of its loads simplified; all of its axes stay where they are."""
    if not _divides_sums(block):
        return block
    exact, analyzer = sym.Analyzer(), sym.Analyzer()
    for axis in block.iter_vars:
        exact.bind(axis.var, axis.dom)
        # TVM would put the number in the place of an axis of one element.
        extent = axis.dom.extent
        within = tirx.const(2, axis.var.ty.dtype) if is_one(extent) else extent
        analyzer.bind(axis.var, tvm.ir.Range.from_min_extent(axis.dom.min, within))

    def divided(part: Any) -> Any:
        # Of what is divided, such an axis is no part.
        return type(part)(exact.simplify(part.a), part.b)

    def simple(load: TensorLoad) -> Any:
        return tirx.BufferLoad(load.source, [analyzer.simplify(index) for index in load.indices])

    store = block.body
    value = structural_map(store.value, ((tirx.FloorDiv, tirx.FloorMod), divided))
    body = tirx.BufferStore(store.buffer, structural_map(value, (TensorLoad, simple)), store.indices)
    return with_body(block, list(block.iter_vars), body, block.init)


def _plain_blocks(func: tirx.PrimFunc) -> list[SBlockNode] | None:
    """The blocks of a function of static extents that all store one element of a buffer of their own, by the
    axes that they have; None of any other, whose blocks TVM may refuse to inline.
    """
    if not isinstance(func.body, SBlockRealize) or has_reduction(func):
        return None
    realizes = [nested_block(nest) for nest in nests_of(func)]
    blocks: list[SBlockNode] = []
    written: list[Any] = []
    for realize in realizes:
        if realize is None:
            return None
        block = realize.block
        store = block.body
        if (
            not isinstance(store, tirx.BufferStore)
            or fixed(realize.predicate) != 1
            or block.annotations
            or len(store.indices) != len(block.iter_vars)
            or not all(map(_is_axis, store.indices, block.iter_vars))
            or holds(written, store.buffer)
        ):
            return None
        written.append(store.buffer)
        blocks.append(block)
    return blocks if all(_reads_alone(block, written) for block in blocks) else None


def _is_axis(index: Any, axis: tirx.IterVar) -> bool:
    static = fixed(axis.dom.min) == 0 and fixed(axis.dom.extent) is not None
    return static and bool(index.same_as(axis.var))


def _reads_alone(block: SBlockNode, written: Sequence[Any]) -> bool:
    """Does a block load at indices of its axes alone, none of which is itself loaded?"""
    value = block.body.value
    places = [place for load in loads_of(value) for index in load.indices for place in loads_of(index)]
    if any(holds(written, place.source) for place in places):
        return False
    axes = [axis.var for axis in block.iter_vars]
    variables = [one for one in tirx.analysis.undefined_vars(value) if isinstance(one.ty, tvm.ir.PrimType)]
    return all(any(variable.same_as(axis) for axis in axes) for variable in variables)


def _inlined_at_once(func: tirx.PrimFunc, blocks: Sequence[SBlockNode]) -> tirx.PrimFunc:
    root = func.body.block
    readers = _readers(blocks)
    inside: dict[Any, SBlockNode] = {}
    made: dict[Any, SBlockNode] = {}
    for block in blocks:
        new = _with_inlined(block, inside)
        made[block.body.buffer] = new
        loads = readers.get(block.body.buffer, {})
        others = [one for one in blocks if one.body.buffer in loads]
        if (
            holds(root.alloc_buffers, block.body.buffer)
            and others
            and not would_repeat(new, others)
            and not is_repeated_long(new, sum(loads.values()))
        ):
            inside[block.body.buffer] = new
    left = [
        structural_map(nest, (SBlockNode, lambda block: made[block.body.buffer]))
        for nest, block in zip(nests_of(func), blocks, strict=True)
        if block.body.buffer not in inside
    ]
    return with_nests(func, left, [buffer for buffer in root.alloc_buffers if buffer not in inside])


def _readers(blocks: Sequence[SBlockNode]) -> dict[Any, dict[Any, int]]:
    """By buffer, the number of loads from it by each block; blocks are identified by the buffer they store
    to.
    """
    found: dict[Any, dict[Any, int]] = {}
    for block in blocks:
        for load in loads_of(block.body.value):
            counts = found.setdefault(load.source, {})
            counts[block.body.buffer] = counts.get(block.body.buffer, 0) + 1
    return found


def _with_inlined(block: SBlockNode, inside: dict[Any, SBlockNode]) -> SBlockNode:
    """The block with loads from these buffers replaced by what the buffers' blocks compute."""
    store = block.body
    if not any(load.source in inside for load in loads_of(store.value)):
        return block

    def computed(load: TensorLoad) -> Any:
        source = inside.get(load.source)
        if source is None:
            return load
        axes = [axis.var for axis in source.iter_vars]
        return substitute(source.body.value, dict(zip(axes, load.indices, strict=True)))

    value = structural_map(store.value, (TensorLoad, computed))
    body = tirx.BufferStore(store.buffer, value, store.indices)
    return with_body(block, list(block.iter_vars), body, block.init)
