"""Window pooling: a run of output pixels by one vector of channels, the window unrolled."""

import math

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import block_of, physical_axes
from topi_ext.processor import Processor
from topi_ext.schedule.blocks import (
    annotated_block,
    carried_workload,
    fuse_epilogue,
    loop_extent,
    open_schedule,
)
from topi_ext.schedule.cpu.loops import arrange_block, arrange_loops, finished
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.overlap import overlap_tail
from topi_ext.schedule.work import block_cycles
from topi_ext.workload import PoolingWorkload, operator_of

TILE_PIXELS = 4
"""Output pixels per tile; enough independent maxima to hide their latency."""

UNROLLED_WINDOW = 9
"""Windows up to this many taps are unrolled whole."""


class WindowPooling(ProcessorRule):
    """Schedules max and average pooling in layouts whose innermost axis is the channel."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for NCHW, symbolic widths, and anything that is no pooling."""
        carried = carried_workload(func)
        if carried is None or operator_of(carried[0]) not in ("max_pool2d", "avg_pool2d"):
            return None
        sch = open_schedule(func)
        found = annotated_block(sch)
        assert found is not None, "the workload is on one of the blocks"
        anchor, workload = found[0], PoolingWorkload.from_json(found[1])
        if physical_axes(workload.layout)[-1][0] != "C":
            return None
        around = fuse_epilogue(sch, anchor)
        epilogue = around.epilogue
        if epilogue is None:
            epilogue = sch.cache_write(anchor, 0, "global")
        loops = sch.get_loops(anchor)
        spatial, window = loops[:-2], loops[-2:]
        parallel = block_cycles(sch, anchor, processor.lanes(4)) > processor.parallel_cycles
        blocked = block_of(workload.layout, "C") > 1
        pixel = spatial[-2]
        width, lanes = loop_extent(sch, pixel), loop_extent(sch, spatial[-1])
        if width is None or lanes is None:
            return None
        tile = min(TILE_PIXELS, width)
        vector = lanes if blocked else math.gcd(lanes, processor.lanes(DTYPE_BYTES[workload.dtype]))
        pixel, tile_pixel = sch.split(pixel, [None, tile])
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
        if width % tile:
            overlap_tail(sch, pixel)
        for block in around.before:
            arrange_block(sch, block, vector, processor.parallel_cycles)
        arrange_loops(sch, around.after, vector, processor.parallel_cycles)
        return open_schedule(finished(sch.mod["main"]))
