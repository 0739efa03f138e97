"""Loops over dimensions that lie as one in all tensors, made one loop.

LLVM unrolls short loops whole, and those around them in turn: a copy of four channel blocks of 7 x 7 pixels
becomes thousands of instructions, whose values it then keeps on the stack.
"""

from collections.abc import Sequence
from typing import Any

from tvm import sym, tirx
from tvm.s_tir import Schedule

from topi_ext.extents import fixed, is_one
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

    Those of a tensor of as many elements in the ``inner`` one as that has. Other uses of the ``outer`` one
    do not count.
    """
    if extent is None or not isinstance(store, tirx.BufferStore):
        return False
    together = 0
    for dimensions in map(dimensions_of, (*loads_of(store.value), store)):
        used = [
            place for place, (index, _) in enumerate(dimensions) if uses(index, outer) or uses(index, inner)
        ]
        if not used:
            continue
        if len(used) != 2 or used[1] != used[0] + 1:
            return False
        (first, _), (second, whole) = (dimensions[place] for place in used)
        offset = sym.Analyzer().simplify(first - outer)
        if fixed(whole) != extent or not second.same_as(inner) or not isinstance(offset, tirx.IntImm):
            return False
        together += 1
    return together == occurrences(store, inner) > 0


def dimensions_of(access: Any) -> list[tuple[Any, Any]]:
    """The index and the extent of each dimension of a load or a store that has more than one element."""
    pairs = zip(access.indices, tensor_of(access).shape, strict=True)
    return [(index, extent) for index, extent in pairs if not is_one(extent)]


def tensor_of(access: Any) -> Any:
    """What a load or a store accesses."""
    return access.buffer if isinstance(access, tirx.BufferStore) else access.source
