"""Functions without a sum: everything inlined into one block, which threads walk in vectors."""

from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from topi_ext.schedule.blocks import child_blocks, is_reduction, loop_extent, open_schedule, try_inline

THREADS = 256


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
    fused = sch.fuse(*loops)
    block_loop, thread, lane = sch.split(fused, [None, THREADS, lanes])
    sch.bind(block_loop, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(lane)
    return sch


__all__ = ["schedule_elementwise"]
