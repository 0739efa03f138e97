"""Register tiles along axes whose extents are known at run time."""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock

from topi_ext.extents import fixed
from topi_ext.ir import nodes_of, substitute
from topi_ext.schedule.nests import with_nests

_LARGE = 1 << 14


def with_known_tiles(func: tirx.PrimFunc, mark: str) -> tirx.PrimFunc:
    """The function with the results of blocks that are annotated ``mark`` as long as any are.

    These are accumulators, of which TVM keeps what a tile needs, but no more than there are: where that is
    not known, neither would be their number, and they would lie in memory.
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


def either(condition: Any, first: tirx.PrimFunc, second: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function that does what ``first`` does where ``condition`` holds, and else what ``second`` does.

    Both are arrangements of one function, with temporaries of their own.
    """
    root, other = first.body.block, second.body.block
    own = {buffer: tirx.Var(buffer.name, buffer.ty) for buffer in other.alloc_buffers}
    body = tirx.IfThenElse(condition, root.body, substitute(other.body, own))
    return with_nests(first, [body], [*root.alloc_buffers, *own.values()])


__all__ = ["either", "with_known_tiles"]
