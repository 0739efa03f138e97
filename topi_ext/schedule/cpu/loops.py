"""The fallback rule: vectors and threads for elementwise operators, data movement and reductions."""

import logging
from math import ceil, lcm
from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlockRealize, Schedule

from topi_ext.codegen.infinite_extremes import from_infinity
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.extents import size_of
from topi_ext.indexing import WORD_BYTES
from topi_ext.ir import holds, loads_of, nodes_of, uses
from topi_ext.machine.processor import Processor, parallel_cycles
from topi_ext.schedule.blocks import (
    SBlock,
    child_blocks,
    fusible,
    inline_small,
    is_reduction,
    loop_extent,
    open_schedule,
    temporaries,
)
from topi_ext.schedule.conditionals import conditionals
from topi_ext.schedule.cpu.coalescing import coalesce
from topi_ext.schedule.cpu.flat import ENOUGH_ROWS, depends_on_place, flattened, lies_as_result, same_extent
from topi_ext.schedule.cpu.reductions import (
    MAXIMUM_VECTOR,
    Arrangement,
    arrange_reduction,
    arrange_whole,
    start_before,
)
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.inlining import inlined
from topi_ext.schedule.loop_peeling import apply_peeling
from topi_ext.schedule.overlap import apply_overlap, overlap_tail
from topi_ext.schedule.sharing import is_shared, with_shared_parts
from topi_ext.schedule.vector_remainders import MOST_IN_REGISTERS, apply_remainders, mark_remainder
from topi_ext.schedule.work import block_cycles

_LOG = logging.getLogger(__name__)

MOST_ALONE = parallel_cycles()
"""Cycles of work up to which one thread is used, for a processor of unknown launch cost."""

COPIED_LANES = 16
"""Elements in a vector of a copy of unknown width, and the most in others."""

LEAST_VECTOR = 4
"""The shortest row, in elements, that is vectorized."""

WORTH_MOVING = 1.3
"""The gain in elements per instruction above which vectors overlap at the end of a row."""

ENOUGH_ELEMENTS = 16
"""So many take longer than dividing an index by symbolic extents."""

LONG_ROW = 4
"""Vectors of a row for which its place is worked out once."""


class LoopNest(ProcessorRule):
    """Takes any function: inlines blocks where that pays, and vectorizes and parallelizes all others."""

    is_fallback = True

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for a function without blocks, e.g. one lowered by hand, which is compiled as it is."""
        lanes = processor.lanes(4)
        sch = open_schedule(flattened(with_shared_parts(inlined(func)), lanes))
        for block in child_blocks(sch):
            arrange_block(sch, block, lanes, processor.parallel_cycles)
        for block in child_blocks(sch):
            start_before(sch, block)
        return open_schedule(finished(sch.mod["main"]))


def with_plain_loops(func: tirx.PrimFunc, processor: Processor) -> tirx.PrimFunc:
    """The function as scheduled by :class:`LoopNest`; it must have blocks."""
    found = LoopNest().schedule(func, processor)
    assert found is not None
    return found.mod["main"]


def arrange_loops(sch: Schedule, blocks: list[SBlock], lanes: int, most_alone: float = MOST_ALONE) -> None:
    """Inline those of ``blocks`` that allow it, and schedule the loops of the others.

    :func:`finished` must be called afterwards.
    """
    kept = [
        block
        for block in blocks
        if is_reduction(sch, block) or is_shared(sch, block) or not inline_small(sch, block)
    ]
    for block in kept:
        arrange_block(sch, block, lanes, most_alone)


def finished(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with its marked loops rewritten, so that no predicate on single elements is left."""
    # Vector remainders are filled with the identity of their reduction, which is replaced first.
    return apply_remainders(from_infinity(apply_overlap(apply_peeling(func))))


def arrange_block(sch: Schedule, block: SBlock, lanes: int, most_alone: float = MOST_ALONE) -> None:
    """Vectorize one block, and parallelize it if it takes more than ``most_alone`` cycles.

    :func:`finished` must be called afterwards.
    """
    try:
        arrange(sch, block, Arrangement(lanes, block_cycles(sch, block, lanes) > most_alone))
    except RuntimeError:
        # A primitive preserves semantics or refuses, so the schedule is valid after a refusal.
        _LOG.debug("block %s keeps some plain loops", sch.get(block).name_hint, exc_info=True)


def arrange(sch: Schedule, block: SBlock, how: Arrangement) -> None:
    """Vectorize one block, and parallelize it if ``how`` says so.

    :func:`finished` must be called afterwards. RuntimeError if TVM refuses.
    """
    loops = list(sch.get_loops(block))
    if not loops:
        return
    kinds = [axis.iter_type for axis in sch.get(block).iter_vars]
    if len(kinds) != len(loops) or any(
        kind not in (tirx.IterVar.DataPar, tirx.IterVar.CommReduce) for kind in kinds
    ):
        return
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == tirx.IterVar.DataPar]
    reduction = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == tirx.IterVar.CommReduce]
    if not spatial:
        arrange_whole(sch, block, how)
        return
    if not reduction:
        _elementwise(sch, block, spatial[how.rows :], how)
        return
    arrange_reduction(sch, block, spatial, reduction, how)


def _elementwise(sch: Schedule, block: SBlock, spatial: list[Any], how: Arrangement) -> None:
    """Vectorize and parallelize the ``spatial`` loops of a block without a reduction."""
    if not spatial:
        return
    sized = size_of([sch.get(loop).extent for loop in spatial]) is not None
    # Of operands that lie as the result does, all dimensions are one row, unless the place in it counts.
    lies = lies_as_result(sch.get(block))
    apart = sized and not how.rows and (not lies or depends_on_place(sch.get(block)))
    joined = False
    if apart and not lies and _is_long_row(sch, spatial[-2:], how):
        # Of three loops made one, TVM would not see that places in the row are not those of quotients.
        row = coalesce(sch, block, spatial[-2:], len(spatial) - 2)
        joined = len(row) < len(spatial[-2:])
        spatial = [*spatial[:-2], *row]
    extent = loop_extent(sch, spatial[-1])
    vector = None
    rows = spatial[:-1]
    if (
        _gathers(sch, block)
        and (size_of([sch.get(loop).extent for loop in rows]) or ENOUGH_ROWS) >= ENOUGH_ROWS
    ):
        # In vectors, code generation would extract the indices one by one; left alone, LLVM loads them.
        if how.parallel:
            sch.parallel(sch.fuse(*fusible(sch, rows)))
        return
    width = _row_vector(sch, block, extent, how, sized, apart) if extent is not None else None
    if how.symbolic_rows and extent is None and len(spatial) == 1 and _may_repeat(sch, block):
        outer, vector = sch.split(spatial[0], [None, how.lanes])
        overlap_tail(sch, outer)
        sch.vectorize(vector)
        return
    whole = True
    if width is not None:
        outer, vector = sch.split(spatial.pop(), [None, width])
        spatial.append(outer)
        if extent is not None and extent % width:
            whole = False
            # No axis alone says where a vector of a joined row lies, so that none could be moved back.
            stays = how.rows and ceil(extent / width) <= MOST_IN_REGISTERS
            repeats = _may_repeat(sch, block) and not joined and not stays
            (overlap_tail if repeats else mark_remainder)(sch, outer)
    elif (size := size_of([sch.get(loop).extent for loop in spatial])) is not None and size > 1:
        if apart:
            lanes = how.lanes if extent is None else _whole_rows(sch, block, extent, how.lanes)
        else:
            lanes = _narrow_lanes(sch, block, extent if len(spatial) > 1 else size, how.lanes)
        outer, vector = sch.split(sch.fuse(*spatial), [None, lanes])
        spatial = [outer]
        if size > lanes and size % lanes:
            whole = False
            mark_remainder(sch, outer)
    if spatial and how.parallel:
        if apart and width == extent and width is not None and width <= how.lanes:
            spatial = _rows_of_vectors(sch, spatial)
        sch.parallel(_shared(sch, spatial, whole and not apart))
    elif width is not None:
        coalesce(sch, block, spatial[:-1], how.rows)
    if vector is not None:
        sch.vectorize(vector)


def _rows_of_vectors(sch: Schedule, loops: list[Any]) -> list[Any]:
    """The ``loops`` without the last, over the one vector of a row, where those before are rows enough.

    Threads then share rows of such vectors, instead of vectors whose places are divided one by one.
    """
    rows = size_of([sch.get(loop).extent for loop in loops[:-2]])
    return loops[:-1] if len(loops) > 2 and (rows is None or rows >= ENOUGH_ROWS) else loops


def _shared(sch: Schedule, loops: list[Any], whole: bool) -> Any:
    """The loop to parallelize, fused of as many of ``loops`` as possible.

    The last loop is left out if its last vector is partial (not ``whole``), or if its extent is symbolic:
    dividing by that for each element would take longer than the element itself. So would dividing for the few
    elements of short loops behind it.
    """
    shared = fusible(sch, loops)
    alone = size_of([sch.get(loop).extent for loop in loops[len(shared) :]]) or 1
    # Behind a batch, which may be one image, there must be another loop.
    several = sum(loop_extent(sch, loop) != 1 for loop in shared[:-1]) > 1
    if several and alone < ENOUGH_ELEMENTS and loop_extent(sch, shared[-1]) is None:
        loops = shared
    *rows, last = loops
    if whole and loop_extent(sch, last) is not None:
        return sch.fuse(*shared)
    size = size_of([sch.get(loop).extent for loop in rows])
    enough = size is None or size >= (ENOUGH_ROWS if not whole else 2)
    return sch.fuse(*fusible(sch, rows)) if enough and rows else last


def _gathers(sch: Schedule, block: SBlock) -> bool:
    """Is it a gather, whose indices along the innermost axis are read from a tensor?"""
    node = sch.get(block)
    innermost = node.iter_vars[-1].var
    indices = [index for load in loads_of(node.body) for index in load.indices]
    places = [place for index in indices for place in loads_of(index)]
    return any(uses(index, innermost) for place in places for index in place.indices)


def _places_depend(sch: Schedule, block: SBlock) -> bool:
    """Does a condition on the innermost axis decide where along it elements are read?"""
    node = sch.get(block)
    innermost = node.iter_vars[-1].var
    indices = [index for load in loads_of(node.body) for index in load.indices]
    return any(uses(call.args[0], innermost) for index in indices for call in conditionals(index))


def _is_long_row(sch: Schedule, loops: list[Any], how: Arrangement) -> bool:
    """Whether the last two loops together are a long row, or one of short ones that no vector would fill."""
    row, extent = size_of([sch.get(loop).extent for loop in loops]), loop_extent(sch, loops[-1])
    if row is None or extent is None:
        return False
    return _are_long(row, how) or (extent < LEAST_VECTOR and row >= LONG_ROW * how.lanes)


def _are_long(elements: int | None, how: Arrangement) -> bool:
    """Whether a row of so many ``elements`` is made of whole vectors, and of several."""
    return elements is not None and elements % how.lanes == 0 and elements >= LONG_ROW * how.lanes


def _row_vector(
    sch: Schedule, block: SBlock, extent: int, how: Arrangement, sized: bool, apart: bool
) -> int | None:
    """The length of vectors that do not cross the end of a row of ``extent`` elements; None if they may.

    A vector that crosses rows would load operands of another memory order than the result's by element. None
    crosses rows whose number is unknown, not ``sized``, or long ones that lie ``apart`` in an operand, whose
    places would be divided for each vector.
    """
    lanes = how.lanes
    if how.rows and extent > lanes and extent % lanes:
        return lanes
    if extent > lanes and _places_depend(sch, block) and _may_repeat(sch, block):
        # Of short vectors most lie between the ends of the row, whose places depend on nothing.
        return lanes
    if extent % 4 == 0 and 4 <= extent <= MAXIMUM_VECTOR:
        return extent
    if extent % lanes == 0:
        return lanes if not sized or (apart and _are_long(extent, how)) else None
    if sized and not how.rows and not apart:
        return None
    widths = [width for width in range(4, MAXIMUM_VECTOR + 1, 4) if extent % width == 0]
    # A vector takes whole registers, and one instruction more for each power of two in the remainder.
    registers = {width: width // lanes + (width % lanes).bit_count() for width in widths}
    best = max(widths, key=lambda width: width / registers[width], default=None)
    # The alternative is to move the last vector of a row back, so that it ends with the row.
    moved = min(lanes, 1 << (extent.bit_length() - 1))
    gain = extent / ceil(extent / moved) / (best / registers[best] if best else 1)
    return moved if moved >= LEAST_VECTOR and gain > WORTH_MOVING and _may_repeat(sch, block) else best


def _whole_rows(sch: Schedule, block: SBlock, extent: int, lanes: int) -> int:
    """The length of vectors across rows of ``extent`` elements: of whole rows, where not too many are needed.

    That is where operands lie in the same rows as the result, or are the same in all rows and so in all of
    these vectors.
    """
    node, whole = sch.get(block), lcm(extent, lanes)
    *rows, _ = (axis.var for axis in node.iter_vars)
    shape = node.writes[0].source.shape

    def follows(load: Any) -> bool:
        if not any(uses(index, row) for index in load.indices for row in rows):
            return True
        along = len(load.indices) == len(shape) and all(map(same_extent, load.source.shape, shape))
        *outer, _ = load.indices
        return along and all(index.same_as(row) for index, row in zip(outer, rows, strict=True))

    return whole if whole <= MAXIMUM_VECTOR and all(map(follows, loads_of(node.body))) else lanes


def _narrow_lanes(sch: Schedule, block: SBlock, row: int | None, lanes: int) -> int:
    """The length of vectors of a block in a ``row`` of elements, of ``lanes`` of four bytes.

    It is as many times as long as elements are narrower, all of them on the way to the result, where that
    divides the row.
    """
    store = sch.get(block).body
    found = nodes_of(store, (TensorLoad, tirx.BufferStore, tirx.Cast, Call))
    dtypes = (str((each.buffer if isinstance(each, tirx.BufferStore) else each.ty).dtype) for each in found)
    longer = lanes * max(1, WORD_BYTES // max(DTYPE_BYTES.get(dtype, WORD_BYTES) for dtype in dtypes))
    return longer if row is not None and row % longer == 0 else lanes


def _may_repeat(sch: Schedule, block: SBlock) -> bool:
    """May an element be computed twice, by overlapping vectors?

    Not if TVM may store an operand and the result in the same memory, as it does with temporaries of one
    size: the second computation would read what the first has written.
    """
    node = sch.get(block)
    kept, innermost = temporaries(sch), node.iter_vars[-1].var
    loads = [load for load in loads_of(node.body) if any(uses(index, innermost) for index in load.indices)]
    read, written = (
        [buffer for buffer in buffers if holds(kept, buffer)]
        for buffers in ([load.source for load in loads], [region.source for region in node.writes])
    )
    sizes = [size_of(buffer.shape) for buffer in read]
    return all(
        None not in (size, size_of(buffer.shape)) and size != size_of(buffer.shape)
        for size in sizes
        for buffer in written
    )


def place_padding(sch: Schedule, block: SBlock, chunk: Any | None, parallel: bool = True) -> None:
    """Schedule the block that copies a padded image.

    It copies the rows that each chunk needs within the loop ``chunk``; with None all of the image before the
    loops, parallelized over rows if ``parallel``. :func:`finished` must be called afterwards.
    """
    if chunk is not None:
        sch.compute_at(block, chunk, preserve_unit_loops=True)
    *outer, pixel, innermost = sch.get_loops(block)
    sch.vectorize(_vector_of(sch, innermost))
    if chunk is None and parallel:
        sch.parallel(sch.fuse(*(outer or [pixel])))


def _vector_of(sch: Schedule, loop: Any) -> Any:
    """The loop of a copy to vectorize: its innermost loop, split by a power of two; the last vector may
    overlap.
    """
    extent = loop_extent(sch, loop)
    if extent is None:
        return sch.split(loop, [None, COPIED_LANES])[1]
    overlaps = not _is_bounded(sch, loop)
    if extent <= MAXIMUM_VECTOR and (extent & (extent - 1) == 0 or not overlaps):
        return loop
    lanes = min(COPIED_LANES, 1 << (extent.bit_length() - 1))
    outer, lane = sch.split(loop, [None, lanes])
    if extent % lanes and overlaps:
        overlap_tail(sch, outer)
    return lane


def _is_bounded(sch: Schedule, loop: Any) -> bool:
    """Does a predicate on the copied element depend on the loop, as in a tile that overlaps another?"""
    found = nodes_of(sch.get(loop).body, SBlockRealize)
    return any(uses(realize.predicate, sch.get(loop).loop_var) for realize in found)
