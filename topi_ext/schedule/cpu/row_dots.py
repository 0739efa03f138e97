"""Dot products of rows, as those of a decoder's one new word with the keys of all words before it.

A tile of rows is read once, along the depth in vectors; the sums of all lanes then become one vector.
"""

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.compute.row_dots import MOST_ROWS, ROW_DOTS
from topi_ext.extents import fixed
from topi_ext.ir import holds, stored_by
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import SBlock, child_blocks, fuse_epilogue, fusible, loop_extent, open_schedule
from topi_ext.schedule.cpu.loops import LoopNest, arrange_block, arrange_loops, finished
from topi_ext.schedule.cpu.product import Product
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.dynamic_tiles import either, with_known_tiles
from topi_ext.schedule.named_extents import with_named_extents
from topi_ext.schedule.nests import nests_of, with_nests
from topi_ext.schedule.overlap import overlap_tail
from topi_ext.schedule.work import block_cycles

_PARTIAL = "topi_ext.row_dots_partial"
"""Annotation of the block that sums the lanes of a tile one by one."""


class RowDots(ProcessorRule):
    """Schedules :func:`topi_ext.compute.row_dots.row_dots` of a known depth."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for depths that vectors do not divide, for known columns that fill none, and for any other
        function.
        """
        plain = with_named_extents(func)
        sch = open_schedule(plain)
        anchor = _dots_in(sch)
        if anchor is None:
            return None
        *_, row, column, depth = sch.get_loops(anchor)
        rows, lanes = sch.get(row).extent, processor.lanes(4)
        if (loop_extent(sch, depth) or 1) % lanes or (loop_extent(sch, column) or lanes) < lanes:
            return None
        found = _of_few_rows(plain, processor)
        if fixed(rows) is None:
            many = _of_many_rows(plain, processor)
            found = found if many is None else either(rows <= MOST_ROWS, found, many)
        return open_schedule(found)


def _of_few_rows(plain: tirx.PrimFunc, processor: Processor) -> tirx.PrimFunc:
    """The function with dot products, of any number of columns."""
    lanes = processor.lanes(4)
    sch = open_schedule(plain)
    anchor = _dots_in(sch)
    columns = sch.get(sch.get_loops(anchor)[-2]).extent
    tiled = _arranged(sch, anchor, lanes, processor)
    if fixed(columns) is not None:
        return tiled
    single = open_schedule(plain)
    return either(columns >= lanes, tiled, _arranged(single, _dots_in(single), 1, processor))


def _of_many_rows(plain: tirx.PrimFunc, processor: Processor) -> tirx.PrimFunc | None:
    """The function with a transpose of the second operand, and a product by that; None where that operand is
    computed in the function, and where it is the first one too.
    """
    sch = open_schedule(plain)
    anchor = _dots_in(sch)
    read = [region.source for region in sch.get(anchor).reads]
    if len(read) == 1 or not holds(plain.params, read[1]):
        return None
    right = read[1]
    packing = sch.cache_read(anchor, 1, "global")
    swapped = tirx.IndexMap.from_func(
        lambda *index: [*index[:-2], index[-1], index[-2]], ndim=len(right.shape), index_dtype="int64"
    )
    sch.transform_layout(anchor, ("read", 1), swapped)
    sch.transform_block_layout(packing, swapped)
    packed = sch.get(anchor).reads[1].source
    func = sch.mod["main"]
    temporaries = list(func.body.block.alloc_buffers)
    nests = nests_of(func)
    copy = next(nest for nest in nests if holds(stored_by(nest), packed))
    others = [nest for nest in nests if not nest.same_as(copy)]
    copying = with_nests(tirx.PrimFunc([right, packed], func.body), [copy], [])
    given = [each for each in func.params if not each.same_as(right)]
    own = [each for each in temporaries if not each.same_as(packed)]
    multiplying = with_nests(tirx.PrimFunc([*given, packed], func.body), others, own)
    parts = [LoopNest().schedule(copying, processor), Product().schedule(multiplying, processor)]
    if None in parts:
        return None
    roots = [part.mod["main"].body.block for part in parts if part is not None]
    made = [buffer for root in roots for buffer in root.alloc_buffers]
    return with_nests(plain, [root.body for root in roots], [packed, *made])


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
