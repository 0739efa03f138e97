"""Register tiles along axes of symbolic extent, and functions for some extents."""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock

from topi_ext.extents import fixed
from topi_ext.ir import nodes_of, substitute
from topi_ext.schedule.nests import with_nests

_LARGE = 1 << 14
"""An extent larger than any register tile, in place of a symbolic one."""


def with_known_tiles(func: tirx.PrimFunc, mark: str) -> tirx.PrimFunc:
    """The function with static shapes for the accumulators of the blocks annotated with ``mark``.

    TVM shrinks an accumulator to the region that a tile needs, at most the extent of its axis. A symbolic
    extent would leave a symbolic shape, which cannot be kept in registers, so it is replaced by a large
    number.
    """
    root = func.body.block
    kept: dict[Any, Any] = {}
    for block in nodes_of(root.body, SBlock):
        if mark in block.annotations:
            for region in block.writes:
                kept.setdefault(region.source, _enlarged(region.source))
    temporaries = [kept.get(buffer, buffer) for buffer in root.alloc_buffers]
    return with_nests(func, [substitute(root.body, kept)], temporaries)


def _enlarged(buffer: Any) -> Any:
    shape = [extent if fixed(extent) is not None else tirx.IntImm("int64", _LARGE) for extent in buffer.shape]
    return tirx.decl_buffer(shape, buffer.dtype, buffer.name, layout=None)


def with_short_temporaries(func: tirx.PrimFunc, extent: Any, most: int) -> tirx.PrimFunc:
    """The function, as it is called where ``extent`` is at most ``most``, with temporaries that hold no more.

    TVM allocates those of all branches of a function in each of its calls.
    """
    root = func.body.block
    short = {buffer: _shortened(buffer, extent, most) for buffer in root.alloc_buffers}
    return with_nests(func, [substitute(root.body, short)], list(short.values()))


def _shortened(buffer: Any, extent: Any, most: int) -> Any:
    shape = [tirx.min(each, most) if extent.same_as(each) else each for each in buffer.shape]
    return tirx.decl_buffer(shape, buffer.dtype, buffer.name, layout=None)


def either(condition: Any, first: tirx.PrimFunc, second: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function with the body of ``first`` where ``condition`` holds at run time, else that of ``second``.

    Both are schedules of one function, with temporaries of their own.
    """
    root, other = first.body.block, second.body.block
    own = {buffer: tirx.Var(buffer.name, buffer.ty) for buffer in other.alloc_buffers}
    body = tirx.IfThenElse(condition, root.body, substitute(other.body, own))
    return with_nests(first, [body], [*root.alloc_buffers, *own.values()])
