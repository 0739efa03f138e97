"""Everything else: vector and parallel loops for elementwise, data movement and reductions."""

import logging
from math import ceil, prod
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.dlight import ScheduleRule
from tvm.s_tir.transform import ConvertSSA
from tvm.target import Target
from tvm_ffi import structural_walk

from topi_ext.processor import parallel_cycles, processor_of
from topi_ext.schedule.blocks import (
    SBlock,
    child_blocks,
    is_reduction,
    loop_extent,
    open_schedule,
    try_inline,
)
from topi_ext.schedule.overlap import apply_overlap, overlap_tail, uses
from topi_ext.schedule.work import block_cycles

_LOG = logging.getLogger(__name__)

MOST_ALONE = parallel_cycles()
"""Cycles of work for one thread, where nothing is known of the processor."""

COPIED_LANES = 16
"""Elements that a copy moves at once."""

LEAST_VECTOR = 4
"""Shortest row along which a vector is worth it."""

WORTH_MOVING = 1.3
"""More elements for each instruction, for which vectors may begin anywhere and overlap."""

MAXIMUM_VECTOR = 64
"""Longest innermost loop that is vectorised whole."""

RAGGED_FROM = 2
"""Vectors in a row from which what is left of it may be reduced by itself."""

SHARED_BY = 16
"""Readers of an element for which it is worth a place in memory, if it takes a division."""

FEW_PARTS = 8
"""A reduction of fewer independent vectors is cut along what it reduces, so that threads find work."""

_DEAR = ("tirx.rsqrt", "tirx.sqrt")


class LoopNest(ScheduleRule):
    """Takes any function: inlines what can be, then gives every remaining block vectors and threads."""

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """None only for what is no function for a CPU."""
        if not isinstance(func, tirx.PrimFunc) or target.kind.name != "llvm":
            return None
        try:
            sch = open_schedule(func)
            processor = processor_of(target)
            arrange_loops(sch, child_blocks(sch), processor.lanes(4), processor.parallel_cycles)
            sch = open_schedule(ConvertSSA()(tvm.IRModule({"main": apply_overlap(sch.mod["main"])}))["main"])
        except RuntimeError:
            # A function without blocks, e.g. one that was lowered by hand, is compiled as it is.
            _LOG.debug("no schedule for %s", func, exc_info=True)
            return None
        return sch


def arrange_loops(sch: Schedule, blocks: list[SBlock], lanes: int, most_alone: float = MOST_ALONE) -> None:
    """Inline those of ``blocks`` that can be, and arrange the loops of the others.

    :func:`topi_ext.schedule.overlap.apply_overlap` must follow.
    """
    for block in [
        block
        for block in blocks
        if is_reduction(sch, block) or is_shared(sch, block) or not try_inline(sch, block)
    ]:
        arrange_block(sch, block, lanes, most_alone)


def is_shared(sch: Schedule, block: SBlock) -> bool:
    """Whether many elements of what reads a block would each compute a quotient or a root of it again."""
    node = sch.get(block)
    found: list[Any] = []
    structural_walk(node.body, (tirx.Div, found.append))
    structural_walk(
        node.body, (tvm.ir.Call, lambda call: found.append(call) if call.op.name in _DEAR else None)
    )
    if not found:
        return False
    own, readers = _elements(node), [_elements(sch.get(reader)) for reader in sch.get_consumers(block)]
    return own is not None and bool(readers) and all(one is None or one >= SHARED_BY * own for one in readers)


def _elements(node: Any) -> int | None:
    """How many elements a block computes; None where that is symbolic."""
    extents = [axis.dom.extent for axis in node.iter_vars]
    if not all(isinstance(extent, (int, tirx.IntImm)) for extent in extents):
        return None
    return prod(int(extent) for extent in extents)


def arrange_block(sch: Schedule, block: SBlock, lanes: int, most_alone: float = MOST_ALONE) -> None:
    """Give one block vectors, and threads where it is work of more than ``most_alone`` cycles.

    :func:`topi_ext.schedule.overlap.apply_overlap` must follow.
    """
    try:
        _arrange(sch, block, lanes, block_cycles(sch, block, lanes) > most_alone)
    except RuntimeError:
        # Every primitive either keeps the meaning or refuses: what was done before still stands.
        _LOG.debug("block %s keeps some plain loops", sch.get(block).name_hint, exc_info=True)


def _arrange(sch: Schedule, block: SBlock, lanes: int, parallel: bool) -> None:
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
        return
    if not reduction:
        _elementwise(sch, block, spatial, lanes, parallel)
        return
    cut = _cut(sch, block, spatial, reduction, lanes, parallel)
    if cut is None:
        _reduction(sch, block, spatial, reduction, lanes, parallel)
        return
    place = next(at for at, loop in enumerate(sch.get_loops(block)) if sch.get(loop).same_as(sch.get(cut)))
    innermost = not cut.same_as(reduction[0])
    part = sch.rfactor(cut, len(spatial) if innermost else 0)
    loops = list(sch.get_loops(part))
    own, kept, reduced = loops[place], loops[: len(spatial)], loops[len(spatial) :]
    reduced.pop(place - len(spatial))
    _reduction(sch, part, [*kept, own] if innermost else [own, *kept], reduced, lanes, parallel)
    loops = list(sch.get_loops(block))
    _reduction(sch, block, loops[: len(spatial)], loops[len(spatial) :], lanes, False)


def _cut(
    sch: Schedule, block: SBlock, spatial: list[Any], reduction: list[Any], lanes: int, parallel: bool
) -> Any | None:
    """The loop of which each index gets a partial result of its own; None where none should.

    Neighbours that are reduced together stay apart as the lanes of a vector. Where vectors run along the
    result already, but are few, it is the first reduced dimension, so that threads find work.
    """
    node = sch.get(block)
    extents = [loop_extent(sch, loop) for loop in (*spatial, *reduction)]
    if len(node.writes) != 1 or None in extents:
        return None
    if _runs_along(
        node, [axis for axis in node.iter_vars if axis.iter_type == tirx.IterVar.CommReduce][-1].var
    ):
        row = extents[-1] or 1
        whole = next((size for size in (2 * lanes, lanes, lanes // 2, 4) if row % size == 0), 0)
        width = lanes if whole < lanes and row >= RAGGED_FROM * lanes else whole
        if width < 4 or prod(extent or 1 for extent in extents[len(spatial) :]) < 2 * width:
            return None
        outer, vector = sch.split(reduction[-1], [None, width])
        if row % width:
            # TVM puts the last turn, which is not whole, behind the loop of the others.
            sch.annotate(outer, "pragma_loop_partition_hint", 1)
        return vector
    vectors = prod(extent or 1 for extent in extents[: len(spatial)]) // lanes
    rows = extents[len(spatial)] or 1
    return reduction[0] if parallel and vectors < FEW_PARTS <= rows and len(reduction) > 1 else None


def _runs_along(node: Any, axis: tirx.Var) -> bool:
    """Whether all that a block reads lies along one of its axes in memory, and so none along another."""
    loads: list[Any] = []
    structural_walk(node.body, (TensorLoad, loads.append))
    read = [load for load in loads if not load.source.same_as(node.writes[0].source) and len(load.indices)]
    innermost = [load for load in read if uses(load.indices[-1], axis)]
    return bool(innermost) and all(
        load.indices[-1].same_as(axis) and not any(uses(index, axis) for index in load.indices[:-1])
        for load in innermost
    )


def _elementwise(sch: Schedule, block: SBlock, spatial: list[Any], lanes: int, parallel: bool) -> None:
    extent = loop_extent(sch, spatial[-1])
    vector = None
    width = _row_vector(sch, block, extent, lanes) if extent is not None else None
    if width is not None:
        outer, vector = sch.split(spatial.pop(), [None, width])
        spatial.append(outer)
        if extent is not None and extent % width:
            overlap_tail(sch, outer)
    elif all(loop_extent(sch, loop) is not None for loop in spatial):
        outer, vector = sch.split(sch.fuse(*spatial), [None, lanes])
        spatial = [outer]
    if spatial and parallel:
        sch.parallel(sch.fuse(*_fusible(sch, spatial)))
    if vector is not None:
        sch.vectorize(vector)


def _row_vector(sch: Schedule, block: SBlock, extent: int, lanes: int) -> int | None:
    """The length of vectors that end with each row of ``extent`` elements; None for those that need not.

    Where a vector runs over the end of a row, what does not lie as the result does is read by element.
    """
    if extent % 4 == 0 and 4 <= extent <= MAXIMUM_VECTOR:
        return extent
    if extent % lanes == 0 or _lies_as_result(sch, block):
        return None
    widths = [width for width in range(4, MAXIMUM_VECTOR + 1, 4) if extent % width == 0]
    # A vector takes whole registers, and one for each power of two of what is left.
    registers = {width: width // lanes + (width % lanes).bit_count() for width in widths}
    best = max(widths, key=lambda width: width / registers[width], default=None)
    # Or the last vector of a row is moved back to end with it.
    moved = min(lanes, 1 << (extent.bit_length() - 1))
    gain = extent / ceil(extent / moved) / (best / registers[best] if best else 1)
    return moved if moved >= LEAST_VECTOR and gain > WORTH_MOVING and _may_repeat(sch, block) else best


def _may_repeat(sch: Schedule, block: SBlock) -> bool:
    """Whether an element may be computed twice: not from one that TVM may give the same place in memory."""
    node = sch.get(block)
    temporary = sch.get(sch.get_sblock(sch.mod["main"].body.block.name_hint)).alloc_buffers
    within = [
        [any(region.source.same_as(buffer) for buffer in temporary) for region in regions]
        for regions in (node.reads, node.writes)
    ]
    return not all(map(any, within))


def _lies_as_result(sch: Schedule, block: SBlock) -> bool:
    """Whether all that a block reads lies in the order in which it writes, element by element."""
    node = sch.get(block)
    loads: list[Any] = []
    structural_walk(node.body, (TensorLoad, loads.append))
    result, axes = node.writes[0].source, [axis.var for axis in node.iter_vars]
    return all(
        len(load.indices) == len(axes)
        and all(index.same_as(axis) for index, axis in zip(load.indices, axes, strict=True))
        and all(map(_same_extent, load.source.shape, result.shape))
        for load in loads
    )


def _same_extent(left: Any, right: Any) -> bool:
    return isinstance(left, tirx.IntImm) and isinstance(right, tirx.IntImm) and int(left) == int(right)


def _reduction(
    sch: Schedule, block: SBlock, spatial: list[Any], reduction: list[Any], lanes: int, parallel: bool
) -> None:
    """Threads over the outer spatial axes, vectors over the innermost one, the reduction between."""
    extent = loop_extent(sch, spatial[-1])
    vector = None
    if extent is not None and extent > 1:
        width = extent if extent <= MAXIMUM_VECTOR and extent % 4 == 0 else lanes
        if extent >= width:
            outer, vector = sch.split(spatial.pop(), [None, width])
            spatial.append(outer)
    sch.reorder(*spatial, *reduction, *([vector] if vector is not None else []))
    if parallel:
        sch.parallel(sch.fuse(*_fusible(sch, spatial)))
    if vector is not None:
        sch.vectorize(vector)
    sch.decompose_reduction(block, reduction[0])


def _fusible(sch: Schedule, loops: list[Any]) -> list[Any]:
    """The outer of ``loops``, without those inside of a symbolic one.

    TVM's analysis of indices fails on quotients of a fused loop by an extent that is symbolic times fixed.
    """
    symbolic = [place for place, loop in enumerate(loops) if place and loop_extent(sch, loop) is None]
    return loops[: symbolic[-1] + 1] if symbolic else loops


def place_padding(sch: Schedule, block: SBlock, chunk: Any | None, parallel: bool = True) -> None:
    """Arrange the block that copies an image with its padding.

    Inside the loop ``chunk`` it copies the rows that the chunk needs; before all loops, which is where None
    puts it, its rows are split among the threads if ``parallel``.
    :func:`topi_ext.schedule.overlap.apply_overlap` must follow.
    """
    if chunk is not None:
        sch.compute_at(block, chunk, preserve_unit_loops=True)
    *outer, pixel, innermost = sch.get_loops(block)
    sch.vectorize(_vector_of(sch, innermost))
    if chunk is None and parallel:
        sch.parallel(sch.fuse(*(outer or [pixel])))


def _vector_of(sch: Schedule, loop: Any) -> Any:
    """The innermost loop of a copy, cut to vectors of a power of two; the last one may overlap another."""
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
    """Whether a condition on the copied element depends on the loop: it is of a tile that may overlap."""
    found: list[Any] = []
    structural_walk(sch.get(loop).body, (SBlockRealize, found.append))
    return any(uses(realize.predicate, sch.get(loop).loop_var) for realize in found)
