"""Window pooling of images whose pixels lie together along rows: vectors are pixels of a row.

The columns of windows come first, in vectors without gaps, then each row of what these give
(:func:`topi_ext.compute.pooling.by_rows`).
"""

from functools import partial
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.compute.padding import PADDING
from topi_ext.compute.pooling import COLUMNS
from topi_ext.divisors import largest_divisor
from topi_ext.extents import fixed
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import (
    SBlock,
    anchor_of,
    annotated_block,
    child_blocks,
    fuse_epilogue,
    loop_extent,
    open_schedule,
)
from topi_ext.schedule.cpu.loops import arrange_block, arrange_loops, finished, with_plain_loops
from topi_ext.schedule.dynamic_tiles import either, with_known_tiles
from topi_ext.schedule.named_extents import with_named_extents
from topi_ext.schedule.overlap import overlap_tail
from topi_ext.schedule.work import block_cycles
from topi_ext.workloads.convolution import ANNOTATION

FEWEST_LANES = 4
"""The fewest lanes of vectors of rows whose length is not known, where these are too short for more."""

CHUNK_ELEMENTS = 1024
"""Elements of the rows of columns that are made before windows read them: a load of what has just been stored
in two parts waits for both. Measured on a Zen 5, of 20 and 56 pixels: one row at a time takes 1.4 to 2.4
times as long, and 4096 elements take 1 to 1.3 times as long."""

UNROLLED_TAPS = 9
"""Sides of windows up to this long are unrolled."""


def schedule_row_pooling(func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
    """Vectors of pixels; None for windows of one column."""
    plain = open_schedule(with_named_extents(func))
    found, columns = annotated_block(plain), [*filter(partial(_has_columns, plain), child_blocks(plain))]
    assert found is not None, "the workload is on one of the blocks"
    if not columns:
        return None
    windows = plain.get(found[0])
    widths = [block.iter_vars[-2].dom.extent for block in (plain.get(columns[0]), windows)]
    if None not in map(fixed, [*widths, windows.iter_vars[-3].dom.extent]):
        return open_schedule(_arranged(plain, processor, processor.lanes(4)))
    arranged = with_plain_loops(plain.mod["main"], processor)
    for lanes in sorted({FEWEST_LANES, processor.lanes(4)}):
        vectors = _arranged(open_schedule(plain.mod["main"]), processor, lanes)
        wide = tirx.all(*[width >= lanes for width in widths])
        arranged = either(wide, with_known_tiles(vectors, ANNOTATION), arranged)
    return open_schedule(arranged)


def _arranged(sch: Schedule, processor: Processor, lanes: int) -> tirx.PrimFunc:
    """A few rows of windows at a time, in vectors of ``lanes`` pixels at most.

    Of unknown size, where rows have as many at least, the columns of all windows come before the windows.
    """
    anchor = anchor_of(sch)
    around = fuse_epilogue(sch, anchor)
    (columns,) = (block for block in around.before if _has_columns(sch, block))
    padded = [block for block in around.before if sch.get(block).name_hint == PADDING]
    others = [block for block in around.before if block not in (columns, *padded)]
    *images, line, pixel, beside = sch.get_loops(anchor)
    height, width = loop_extent(sch, line), loop_extent(sch, pixel)
    parallel = sum(block_cycles(sch, block, lanes) for block in (anchor, columns)) > processor.parallel_cycles
    epilogue = around.epilogue or sch.cache_write(anchor, 0, "global")
    is_known = height is not None and width is not None
    if height is not None and width is not None:
        lines = largest_divisor(height, max(1, CHUNK_ELEMENTS // width))
        together = loop_extent(sch, images[-1]) if lines == height else None
        # Of images that are smaller than a chunk, several.
        together = largest_divisor(together or 1, max(1, CHUNK_ELEMENTS // (lines * width)))
        image, own = sch.split(images.pop(), [None, together])
        line, row = sch.split(line, [None, lines])
        sch.reorder(image, line, own, row)
        images.append(image)
    chunk = sch.fuse(*images, line)
    if parallel:
        sch.parallel(chunk)
    vector = _reduce_in_vectors(sch, anchor, pixel, beside, lanes)
    sch.reverse_compute_at(epilogue, vector, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(epilogue)[-1])
    for block in (*padded, columns):
        if is_known:
            sch.compute_at(block, chunk, preserve_unit_loops=True)
    for block in padded:
        outermost = sch.get_loops(block)[is_known]
        for part in (sch.decompose_padding(block, outermost), block):
            (pixel,) = _rows_of(sch, part, 1, parallel and not is_known)
            _in_vectors(sch, pixel, lanes)
    pixel, tap = _rows_of(sch, columns, 2, parallel and not is_known)
    _reduce_in_vectors(sch, columns, pixel, tap, lanes)
    for block in others:
        arrange_block(sch, block, lanes, processor.parallel_cycles)
    arrange_loops(sch, around.after, lanes, processor.parallel_cycles)
    return finished(sch.mod["main"])


def _has_columns(sch: Schedule, block: SBlock) -> bool:
    """Whether a block computes the columns of windows."""
    return COLUMNS in sch.get(block).annotations


def _rows_of(sch: Schedule, block: SBlock, inner: int, shared: bool) -> list[Any]:
    """The ``inner`` loops of a row; threads share the loops around them if ``shared``."""
    loops = sch.get_loops(block)
    if shared:
        sch.parallel(sch.fuse(*loops[:-inner]))
    return list(loops[-inner:])


def _in_vectors(sch: Schedule, pixel: Any, lanes: int, *taps: Any) -> Any:
    """The loop over vectors along ``pixel``, of which the last may begin in the one before.

    Loops over ``taps`` are put in that loop.
    """
    width = loop_extent(sch, pixel)
    lanes = lanes if width is None else min(lanes, 1 << (width.bit_length() - 1))
    vector, lane = sch.split(pixel, [None, lanes])
    sch.reorder(vector, *taps, lane)
    sch.vectorize(lane)
    if width is None or width % lanes:
        overlap_tail(sch, vector)
    return vector


def _reduce_in_vectors(sch: Schedule, block: SBlock, pixel: Any, tap: Any, lanes: int) -> Any:
    """As :func:`_in_vectors`, for a block that reduces over the loop ``tap``."""
    vector = _in_vectors(sch, pixel, lanes, tap)
    if (loop_extent(sch, tap) or 0) <= UNROLLED_TAPS:
        sch.unroll(tap)
    sch.decompose_reduction(block, tap)
    return vector
