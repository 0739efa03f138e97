"""Depthwise convolutions on CUDA cores: each thread a vector of channels of a tile of pixels.

The window is unrolled. What a tile reads is loaded once, in vectors, and stays in registers as it is stored;
it is converted on its way into the sums, which are registers too.
"""

from typing import Any

from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from topi_ext.cuda.compute.depthwise import WINDOW
from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs
from topi_ext.cuda.schedule.epilogue import epilogue_of, result_run
from topi_ext.cuda.schedule.loops import in_vectors, unrolled
from topi_ext.schedule.blocks import annotated_block, open_schedule


def schedule_depthwise(func: PrimFunc, knobs: DepthwiseKnobs) -> Schedule | None:
    """Arrange a function around ``cuda.compute.depthwise``; None where what follows it is no epilogue."""
    sch = open_schedule(func)
    found = annotated_block(sch)
    if found is None:
        return None
    anchor, out = found[0], epilogue_of(sch, found[0])
    if out is None:
        return None
    window = sch.get_sblock(WINDOW)
    image, y, x, channel, _, _ = sch.get_loops(anchor)
    y, thread_y, row = sch.split(y, [None, knobs.row_threads, knobs.tile_rows])
    x, thread_x, column = sch.split(x, [None, knobs.column_threads, knobs.tile_columns])
    channel, lane, element = sch.split(channel, [None, knobs.channel_threads, knobs.vector])
    i, j = sch.get_loops(anchor)[-2:]
    sch.reorder(image, y, x, channel, thread_y, thread_x, lane, i, j, row, column, element)
    sch.bind(image, "blockIdx.z")
    sch.bind(y, "blockIdx.y")
    block = sch.fuse(x, channel)
    sch.bind(block, "blockIdx.x")
    sch.bind(sch.fuse(thread_y, thread_x), "threadIdx.y")
    sch.bind(lane, "threadIdx.x")
    if knobs.weights == "shared":
        _copy_weights(sch, anchor, block, knobs)
    weights = sch.cache_read(anchor, 1, "local")
    sch.compute_at(weights, i, preserve_unit_loops=True)
    sch.compute_at(window, lane, preserve_unit_loops=True)
    sch.set_scope(window, 0, "local")
    sch.set_scope(anchor, 0, "local")
    sch.reverse_compute_at(out, lane, preserve_unit_loops=True)
    for copy in (window, weights):
        in_vectors(sch, sch.get_loops(copy)[-4 if copy is window else -3 :])
    *pixels, elements = sch.get_loops(out)[-3:]
    elements, run = sch.split(elements, [None, result_run(knobs.vector)])
    in_vectors(sch, [*pixels, elements, run])
    init = sch.decompose_reduction(anchor, i)
    unrolled(sch, (i, j, row, column, element, *sch.get_loops(init)[-3:]))
    return sch


def _copy_weights(sch: Schedule, anchor: Any, block: Any, knobs: DepthwiseKnobs) -> None:
    """A block's weights to shared memory, neighbouring vectors by neighbouring threads."""
    copy = sch.cache_read(anchor, 1, "shared")
    sch.compute_at(copy, block, preserve_unit_loops=True)
    fused = sch.fuse(*sch.get_loops(copy)[-3:])
    _, others, lane, run = sch.split(fused, [None, knobs.pixel_threads, knobs.channel_threads, knobs.vector])
    sch.bind(others, "threadIdx.y")
    sch.bind(lane, "threadIdx.x")
    sch.vectorize(run)
