"""Loops over dimensions that lie as one in all tensors, made one loop.

LLVM unrolls short loops whole, and those around them in turn: a copy of four channel blocks of 7 x 7 pixels
becomes thousands of instructions, whose values it then keeps on the stack.
"""

from collections.abc import Sequence
from typing import Any

from tvm import sym, tirx
from tvm.s_tir import Schedule

from topi_ext.extents import fixed
from topi_ext.ir import loads_of, occurrences, uses
from topi_ext.schedule.blocks import SBlock, loop_extent


def coalesce(sch: Schedule, block: SBlock, loops: Sequence[Any], first: int = 0) -> list[Any]:
    """Fuse neighbours among ``loops`` of an elementwise block where no index becomes a quotient.

    ``loops`` are those of the block's axes from the one at ``first`` on, in their order. The loops that are
    left.
    """
    node = sch.get(block)
    axes = [axis.var for axis in node.iter_vars[first:]]
    extents = [loop_extent(sch, loop) for loop in loops]
    left = list(loops[:1])
    for place in range(1, len(loops)):
        outer, inner = axes[place - 1], axes[place]
        if 1 in extents[place - 1 : place + 1] or lie_as_one(node.body, outer, inner, extents[place]):
            left[-1] = sch.fuse(left[-1], loops[place])
        else:
            left.append(loops[place])
    return left


def lie_as_one(store: Any, outer: tirx.Var, inner: tirx.Var, extent: int | None) -> bool:
    """Whether all that a statement does with two axes is to index neighbouring dimensions with them.

    Those of a tensor of as many elements in the ``inner`` one as that has.
    """
    if extent is None or not isinstance(store, tirx.BufferStore):
        return False
    accesses = [(load.indices, load.source.shape) for load in loads_of(store.value)]
    accesses.append((store.indices, store.buffer.shape))
    together = 0
    for indices, shape in accesses:
        used = [place for place, index in enumerate(indices) if uses(index, outer) or uses(index, inner)]
        if not used:
            continue
        if len(used) != 2 or used[1] != used[0] + 1 or fixed(shape[used[1]]) != extent:
            return False
        first, second = (indices[place] for place in used)
        offset = sym.Analyzer().simplify(first - outer)
        if not second.same_as(inner) or not isinstance(offset, tirx.IntImm):
            return False
        together += 1
    return together == occurrences(store, inner) > 0
