"""Functions without a sum: everything inlined into one block, which threads walk in vectors."""

from tvm.s_tir import Schedule
from tvm.tirx import IndexMap, PrimFunc

from topi_ext.schedule.blocks import (
    child_blocks,
    is_reduction,
    loop_extent,
    open_schedule,
    simplified,
    try_inline,
)

THREADS = 256
"""Threads of a block."""


def schedule_elementwise(func: PrimFunc) -> Schedule | None:
    """Arrange a function whose blocks all compute element by element; None for any other."""
    sch = open_schedule(func)
    blocks = child_blocks(sch)
    if not blocks or any(is_reduction(sch, block) for block in blocks):
        return None
    for block in blocks[:-1]:
        if not try_inline(sch, block):
            return None
    loops = sch.get_loops(blocks[-1])
    if not loops:
        return None
    last = loop_extent(sch, loops[-1])
    lanes = next(size for size in (4, 2, 1) if last is not None and last % size == 0) if last else 1
    if lanes == 1:
        block_loop, thread = sch.split(sch.fuse(*loops), [None, THREADS])
    else:
        # Lanes are an axis of their own, so that what chooses between operands, as in a concatenation, is
        # seen to be the same for all of them: vectors are of what has one condition.
        sch.transform_block_layout(
            blocks[-1],
            IndexMap.from_func(
                lambda *index: (*index[:-1], index[-1] // lanes, index[-1] % lanes),
                ndim=len(loops),
                index_dtype=str(sch.get(loops[-1]).loop_var.ty.dtype),
            ),
        )
        name = sch.get(blocks[-1]).name_hint
        sch = open_schedule(simplified(sch.mod["main"]))
        *others, lane = sch.get_loops(sch.get_sblock(name))
        block_loop, thread = sch.split(sch.fuse(*others), [None, THREADS])
        sch.vectorize(lane)
    sch.bind(block_loop, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    return sch
