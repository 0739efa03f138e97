"""Dot products of rows, as those of a decoder's one new word with the keys of all words before it.

A tile of rows is read once, along the depth in vectors; the sums of all lanes then become one vector.
"""

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.compute.row_dots import ROW_DOTS
from topi_ext.extents import fixed
from topi_ext.processor import Processor
from topi_ext.schedule.blocks import SBlock, child_blocks, fuse_epilogue, fusible, loop_extent, open_schedule
from topi_ext.schedule.cpu.loops import arrange_block, arrange_loops, finished
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.dynamic_tiles import either, with_known_tiles
from topi_ext.schedule.named_extents import with_named_extents
from topi_ext.schedule.overlap import overlap_tail
from topi_ext.schedule.work import block_cycles

_PARTIAL = "topi_ext.row_dots_partial"
"""Annotation of the block that sums the lanes of a tile one by one."""


class RowDots(ProcessorRule):
    """Schedules :func:`topi_ext.compute.row_dots.row_dots` of a known depth."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for depths that vectors do not divide, and for any other function."""
        plain = with_named_extents(func)
        sch = open_schedule(plain)
        anchor = _dots_in(sch)
        if anchor is None:
            return None
        *_, column, depth = sch.get_loops(anchor)
        lanes = processor.lanes(4)
        if (loop_extent(sch, depth) or 1) % lanes:
            return None
        columns = sch.get(column).extent
        tiled = _arranged(sch, anchor, lanes, processor)
        known = fixed(columns)
        if known is not None:
            return open_schedule(tiled) if known >= lanes else None
        single = open_schedule(plain)
        one_by_one = _arranged(single, _dots_in(single), 1, processor)
        return open_schedule(either(columns >= lanes, tiled, one_by_one))


def _dots_in(sch: Schedule) -> SBlock | None:
    return next((block for block in child_blocks(sch) if ROW_DOTS in sch.get(block).annotations), None)


def _arranged(sch: Schedule, anchor: SBlock, tile: int, processor: Processor) -> tirx.PrimFunc:
    """The function with tiles of so many columns, which there are at least."""
    lanes = processor.lanes(4)
    around = fuse_epilogue(sch, anchor)
    parallel = block_cycles(sch, anchor, lanes) > processor.parallel_cycles
    epilogue = around.epilogue or sch.cache_write(anchor, 0, "global")
    sch.annotate(anchor, _PARTIAL, 1)
    *outer, column, depth = sch.get_loops(anchor)
    known = loop_extent(sch, column)
    lane = sch.split(depth, [None, lanes])[1]
    partial = sch.rfactor(lane, len(outer) + 1)
    sch.annotate(partial, _PARTIAL, 1)
    *outer, column, summed = sch.get_loops(anchor)
    column, own = sch.split(column, [None, tile])
    sch.reorder(column, summed, own)
    column = sch.fuse(*fusible(sch, [*outer, column]))
    if parallel:
        sch.parallel(column)
    sch.reverse_compute_at(epilogue, column, preserve_unit_loops=True)
    sch.compute_at(partial, column, preserve_unit_loops=True)
    # TVM puts the loop of the lanes first.
    _, own_lane, *_, own_partial, step = sch.get_loops(partial)
    sch.reorder(step, own_partial, own_lane)
    for loop in (own_partial, summed):
        sch.unroll(loop)
    for loop in (own_lane, own, sch.get_loops(epilogue)[-1]):
        sch.vectorize(loop)
    sch.decompose_reduction(partial, step)
    sch.decompose_reduction(anchor, summed)
    if known is None or known % tile:
        overlap_tail(sch, column)
    for block in around.before:
        arrange_block(sch, block, lanes, processor.parallel_cycles)
    arrange_loops(sch, around.after, lanes, processor.parallel_cycles)
    return with_known_tiles(finished(sch.mod["main"]), _PARTIAL)


__all__ = ["RowDots"]
