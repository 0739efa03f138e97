"""Window pooling: a run of output pixels by one vector of channels, the window unrolled."""

import math

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.extents import fixed
from topi_ext.indexing import block_of, physical_axes
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import (
    anchor_of,
    annotated_block,
    carried_workload,
    fuse_epilogue,
    loop_extent,
    open_schedule,
)
from topi_ext.schedule.cpu.loops import arrange_block, arrange_loops, finished
from topi_ext.schedule.cpu.row_pooling import schedule_row_pooling
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.dynamic_tiles import either, with_known_tiles
from topi_ext.schedule.overlap import overlap_tail
from topi_ext.schedule.work import block_cycles
from topi_ext.workloads.convolution import ANNOTATION
from topi_ext.workloads.pooling import AVERAGE_POOL, MAX_POOL, PoolingWorkload
from topi_ext.workloads.text import operator_of

TILE_PIXELS = 4
"""Output pixels per tile; enough independent maxima to hide their latency."""

UNROLLED_WINDOW = 9
"""Windows up to this many taps are unrolled whole."""


class WindowPooling(ProcessorRule):
    """Schedules max and average pooling in layouts that end with channels, or with the pixels of a row."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for a symbolic number of innermost channels, and anything that is no pooling."""
        carried = carried_workload(func)
        if carried is None or operator_of(carried[0]) not in (MAX_POOL, AVERAGE_POOL):
            return None
        workload = PoolingWorkload.from_json(carried[0])
        if physical_axes(workload.layout)[-1][0] == "W":
            return schedule_row_pooling(func, processor)
        if physical_axes(workload.layout)[-1][0] != "C":
            return None
        # Both arrangements of rows of any width are of the same variables and buffers.
        plain = open_schedule(func)
        found = annotated_block(plain)
        assert found is not None, "the workload is on one of the blocks"
        *_, width, lanes = (axis.dom.extent for axis in plain.get(found[0]).iter_vars[:-2])
        if fixed(lanes) is None:
            return None
        known = fixed(width)
        if known is not None:
            return open_schedule(_arranged(plain, workload, processor, min(TILE_PIXELS, known)))
        tiled = _arranged(open_schedule(plain.mod["main"]), workload, processor, TILE_PIXELS)
        single = _arranged(plain, workload, processor, 1)
        tiled, single = (with_known_tiles(one, ANNOTATION) for one in (tiled, single))
        return open_schedule(either(width >= TILE_PIXELS, tiled, single))


def _arranged(sch: Schedule, workload: PoolingWorkload, processor: Processor, tile: int) -> tirx.PrimFunc:
    """The pooling in tiles of ``tile`` pixels; rows are as long at least."""
    anchor = anchor_of(sch)
    around = fuse_epilogue(sch, anchor)
    epilogue = around.epilogue
    if epilogue is None:
        epilogue = sch.cache_write(anchor, 0, "global")
    loops = sch.get_loops(anchor)
    spatial, window = loops[:-2], loops[-2:]
    parallel = block_cycles(sch, anchor, processor.lanes(4)) > processor.parallel_cycles
    width, channels = loop_extent(sch, spatial[-2]), loop_extent(sch, spatial[-1])
    assert channels is not None
    vector = channels
    if block_of(workload.layout, "C") == 1:
        native = processor.lanes(DTYPE_BYTES[workload.dtype])
        vector = native if channels >= native else math.gcd(channels, native)
    pixel, tile_pixel = sch.split(spatial[-2], [None, tile])
    channel, lane = sch.split(spatial[-1], [None, vector])
    sch.reorder(*spatial[:-2], pixel, channel, *window, tile_pixel, lane)
    outer = sch.fuse(*spatial[:-2])
    if parallel:
        sch.parallel(outer)
    sch.reverse_compute_at(epilogue, channel, preserve_unit_loops=True)
    own = sch.get_loops(epilogue)[3:]
    for loop in own[:-1]:
        sch.unroll(loop)
    sch.vectorize(own[-1])
    if workload.kernel[0] * workload.kernel[1] <= UNROLLED_WINDOW:
        for loop in window:
            sch.unroll(loop)
    sch.unroll(tile_pixel)
    sch.vectorize(lane)
    sch.decompose_reduction(anchor, window[0])
    if width is None or width % tile:
        overlap_tail(sch, pixel)
    if channels % vector:
        overlap_tail(sch, channel)
    for block in around.before:
        arrange_block(sch, block, vector, processor.parallel_cycles)
    arrange_loops(sch, around.after, vector, processor.parallel_cycles)
    return finished(sch.mod["main"])
