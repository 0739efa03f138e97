"""What takes long and is the same for many elements: computed once, in a block of its own.

Layer norm over the channels of an image multiplies each element by the root of its pixel's variance. What
does not change along the innermost loop LLVM takes out of it; what changes with that loop, and with few
others, it computes for each element.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import SBlock as SBlockNode
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_equal, structural_map

from topi_ext.extents import fixed, size_of
from topi_ext.ir import IF_THEN_ELSE, nodes_of, substitute, uses
from topi_ext.schedule.blocks import SBlock
from topi_ext.schedule.nests import (
    is_plain,
    loops_around,
    nest_of,
    nested_block,
    nests_of,
    with_body,
    with_nests,
)

SHARED_BY = 16
"""Readers of an element for which it is worth a place in memory, if it takes a division or the like."""

_DEAR = ("prim.ceil", "tirx.floor", "tirx.log", "tirx.round", "tirx.rsqrt", "tirx.sqrt")


def is_shared(sch: Schedule, block: SBlock) -> bool:
    """Would inlining a block repeat an expensive operation, such as a division, for many elements of its
    readers?
    """
    return would_repeat(sch.get(block), [sch.get(reader) for reader in sch.get_consumers(block)])


def would_repeat(node: SBlockNode, readers: Sequence[SBlockNode]) -> bool:
    """As :func:`is_shared`, of a block that all ``readers`` read."""
    if not _dear_operations(node.body):
        return False
    own, *others = (size_of([axis.dom.extent for axis in each.iter_vars]) for each in (node, *readers))
    return own is not None and bool(others) and all(one is None or one >= SHARED_BY * own for one in others)


def with_shared_parts(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with blocks of their own for expensive operations that change along the innermost axis,
    and that at least ``SHARED_BY`` elements along others share.
    """
    if not isinstance(func.body, SBlockRealize):
        return func
    nests: list[Any] = []
    added: list[Any] = []
    for nest in nests_of(func):
        before, changed, buffers = _apart(nest)
        nests += [*before, changed]
        added += buffers
    return with_nests(func, nests, [*func.body.block.alloc_buffers, *added]) if added else func


def _apart(nest: Any) -> tuple[list[Any], Any, list[Any]]:
    """The nests of what the elements of a nest share, the nest that reads them, and their buffers."""
    realize = nested_block(nest)
    block = None if realize is None else realize.block
    if block is None or not is_plain(block) or not isinstance(block.body, tirx.BufferStore):
        return [], nest, []
    store, axes = block.body, list(block.iter_vars)
    nests: list[Any] = []
    buffers: list[Any] = []
    loads: list[tuple[Any, Any]] = []
    for part in _shared_parts(store.value, axes):
        load = next((load for other, load in loads if structural_equal(part, other)), None)
        if load is None:
            own, load = _nest_for(part, axes, f"{block.name_hint}_part")
            nests.append(own)
            buffers.append(load.source)
        loads.append((part, load))
    if not nests:
        return [], nest, []

    def read(node: Any) -> Any:
        return next((load for part, load in loads if node.same_as(part)), node)

    value = structural_map(store.value, ((tirx.Div, tvm.ir.Call), read))
    body = tirx.BufferStore(store.buffer, value, store.indices)
    return nests, loops_around(with_body(block, axes, body, block.init)), buffers


def _nest_for(part: Any, axes: list[tirx.IterVar], name: str) -> tuple[Any, Any]:
    """A nest that computes ``part`` along those of the ``axes`` that it depends on, and its load at them."""
    own = [axis for axis in axes if uses(part, axis.var)]
    fresh = [tirx.Var(axis.var.name, axis.var.ty) for axis in own]
    buffer = tirx.decl_buffer([axis.dom.extent for axis in own], part.ty.dtype, name)
    inside = {axis.var: variable for axis, variable in zip(own, fresh, strict=True)}
    body = tirx.BufferStore(buffer, substitute(part, inside), fresh)
    loops = [
        tirx.IterVar(axis.dom, variable, axis.iter_type) for axis, variable in zip(own, fresh, strict=True)
    ]
    return nest_of(loops, body, name)[1], tirx.BufferLoad(buffer, [axis.var for axis in own])


def _shared_parts(value: Any, axes: list[tirx.IterVar]) -> list[Any]:
    """The largest expensive operations in ``value`` that elements share, those in conditions left out."""
    guarded = [
        node
        for call in nodes_of(value, tvm.ir.Call)
        if call.op.name == IF_THEN_ELSE
        for node in _dear_operations(call)
    ]
    parts: list[Any] = []
    # Outer operations are found after those in them.
    for node in reversed(_dear_operations(value)):
        inner = any(node.same_as(other) for part in parts for other in _dear_operations(part))
        if not inner and not any(map(node.same_as, guarded)) and _is_shared_along(node, axes):
            parts.append(node)
    return parts


def _is_shared_along(part: Any, axes: list[tirx.IterVar]) -> bool:
    """Does ``part`` depend on the innermost axis, but not on others of enough elements?

    Axes of unknown extent count for one.
    """
    variables = [one for one in tirx.analysis.undefined_vars(part) if isinstance(one.ty, tvm.ir.PrimType)]
    if not all(any(variable.same_as(axis.var) for axis in axes) for variable in variables):
        return False
    others = [axis.dom.extent for axis in axes if not uses(part, axis.var)]
    return uses(part, axes[-1].var) and prod(fixed(extent) or 1 for extent in others) >= SHARED_BY


def _dear_operations(expression: Any) -> list[Any]:
    """All expensive operations in an expression or a statement; inner ones come first."""
    found = nodes_of(expression, (tirx.Div, tvm.ir.Call))
    return [node for node in found if isinstance(node, tirx.Div) or node.op.name in _DEAR]
