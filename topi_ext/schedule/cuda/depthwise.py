"""Depthwise convolutions on CUDA cores: each thread a few neighbouring channels of a run of pixels.

The window is unrolled; sums and, where they overlap, the pixels that neighbouring results read stay in
registers.
"""

from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from topi_ext.schedule.blocks import annotated_block, child_blocks, fuse_epilogue, open_schedule

THREADS = 128

MOST_VECTORS = 64
"""Vectors of channels that neighbouring threads of a block take."""


def schedule_depthwise(func: PrimFunc, vector: int = 4, pixels: int = 2) -> Schedule | None:
    """Arrange a function around ``compute.depthwise``; None where its epilogue cannot be fused.

    ``vector``: most channels of a thread, ``pixels``: most neighbouring results of a row, each where they
    divide.
    """
    sch = open_schedule(func)
    found = annotated_block(sch)
    if found is None:
        return None
    anchor = found[0]
    blocks = child_blocks(sch)
    out = None
    if len(blocks) > 1:
        around = fuse_epilogue(sch, anchor)
        if around.epilogue is None or around.after:
            return None
        for block in around.before:
            sch.compute_inline(block)
        out = around.epilogue
    if out is None:
        out = sch.cache_write(anchor, 0, "local")
    else:
        sch.set_scope(anchor, 0, "local")
    image, y, x, channel = sch.get_loops(out)
    channels, width = int(sch.get(channel).extent), int(sch.get(x).extent)
    lanes = next(size for size in (4, 2, 1) if size <= vector and channels % size == 0)
    run = next(size for size in (4, 3, 2, 1) if size <= pixels and width % size == 0)
    x, pixel = sch.split(x, [None, run])
    channel, lane = sch.split(channel, [None, lanes])
    vectors, runs = channels // lanes, width // run
    across = next(size for size in range(min(vectors, MOST_VECTORS), 0, -1) if vectors % size == 0)
    channel, lane_x = sch.split(channel, [None, across])
    x, lane_y = sch.split(x, [None, min(runs, max(1, THREADS // across))])
    sch.reorder(image, y, x, channel, lane_y, lane_x, pixel, lane)
    sch.bind(image, "blockIdx.z")
    sch.bind(y, "blockIdx.y")
    sch.bind(sch.fuse(x, channel), "blockIdx.x")
    sch.bind(lane_y, "threadIdx.y")
    sch.bind(lane_x, "threadIdx.x")
    sch.vectorize(lane)
    sch.unroll(pixel)
    sch.compute_at(anchor, lane_x, preserve_unit_loops=True)
    *_, p, c, i, j = sch.get_loops(anchor)
    sch.reorder(i, j, p, c)
    for loop in (i, j, p):
        sch.unroll(loop)
    sch.vectorize(c)
    init = sch.decompose_reduction(anchor, i)
    sch.vectorize(sch.get_loops(init)[-1])
    return sch


__all__ = ["schedule_depthwise"]
