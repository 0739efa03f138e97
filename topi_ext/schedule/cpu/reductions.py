"""Schedules of reductions: partial results in the lanes of a vector, or one for each thread (``rfactor``)."""

from dataclasses import dataclass, replace
from itertools import compress
from math import ceil, prod
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_walk

from topi_ext.divisors import divisors, largest_divisor
from topi_ext.extents import fixed, is_one, size_of
from topi_ext.ir import holds, loads_of, strides_along, uses
from topi_ext.schedule.blocks import SBlock, fusible, loop_extent, temporaries
from topi_ext.schedule.cpu.coalescing import dimensions_of, lie_as_one
from topi_ext.schedule.overlap import overlap_tail
from topi_ext.schedule.vector_remainders import mark_remainder

MAXIMUM_VECTOR = 64
"""The longest innermost loop, in elements, that is vectorized as a whole."""

REMAINDER_FROM = 2
"""Vectors in a row from which on its remainder is a vector of its own, rather than all are shorter ones."""

LONG_FROM, MOST_SUMS = 16, 4
"""From so many vectors in a row on, it is reduced to so many independent vectors, to hide their latency."""

FEW_PARTS = 8
"""A reduction with fewer independent vectors of results is split along a reduced axis among threads."""

MOST_PARTS = 16
"""Parts for threads of a reduction to a single element."""

MOST_REPEATED = 1.1
"""The share of columns that may be reduced once or twice, where the last ones overlap."""

LAST_LANES = 4
"""The most partial results that are reduced one by one; more are first reduced to as many."""


@dataclass(frozen=True)
class Arrangement:
    """How to schedule a block: the ``lanes`` of a vector, whether threads share it, and how many outer loops
    (``rows``) stay as they are.

    With ``symbolic_rows`` the innermost extent is symbolic, but no shorter than a vector.
    """

    lanes: int
    parallel: bool
    rows: int = 0
    symbolic_rows: bool = False


def arrange_reduction(
    sch: Schedule, block: SBlock, spatial: list[Any], reduction: list[Any], how: Arrangement
) -> None:
    """Schedule a block with these ``spatial`` and ``reduction`` loops, outermost first."""
    reduction = _without_last_ones(sch, reduction, 1)
    if _rows_run_on(sch, block, reduction):
        reduction = [*reduction[:-2], sch.fuse(*reduction[-2:])]
    cut = _cut(sch, block, spatial, reduction, how)
    innermost = cut is not None and not cut.same_as(reduction[0])
    if not innermost:
        # Vectors lie along the result.
        spatial = _without_last_ones(sch, spatial, max(how.rows, 1))
    if cut is None:
        _nest(sch, block, spatial, reduction, how)
        return
    width = loop_extent(sch, cut) or 1
    _partial(sch, block, cut, innermost, len(spatial), how)
    how = replace(how, parallel=False)
    for fewer in (how.lanes, LAST_LANES) if innermost else ():
        if width >= 2 * fewer:
            last = sch.split(sch.get_loops(block)[-1], [None, fewer])[1]
            _partial(sch, block, last, True, len(spatial), how)
            width = fewer
    loops = list(sch.get_loops(block))
    _nest(sch, block, loops[: len(spatial)], loops[len(spatial) :], how)


def _without_last_ones(sch: Schedule, loops: list[Any], fewest: int) -> list[Any]:
    """The loops, the last of them fused as long as they are of one element, along which no vector lies."""
    while len(loops) > fewest and loop_extent(sch, loops[-1]) == 1:
        loops = [*loops[:-2], sch.fuse(*loops[-2:])]
    return loops


def innermost_reduced(node: Any) -> tirx.IterVar:
    """The last reduced axis of more than one element that a block has, if any, else its last one."""
    reduced = [axis for axis in node.iter_vars if axis.iter_type == tirx.IterVar.CommReduce]
    return next((axis for axis in reversed(reduced) if not is_one(axis.dom.extent)), reduced[-1])


def arrange_whole(sch: Schedule, block: SBlock, how: Arrangement) -> None:
    """Schedule a block that reduces all it reads to one element.

    Each thread has a part of the data, with a partial result for each lane.
    """
    loops = list(sch.get_loops(block))
    symbolic = [place for place, loop in enumerate(loops) if loop_extent(sch, loop) is None]
    first = symbolic[-1] + 1 if symbolic else 0
    leading, rows = loops[:first], loops[first:]
    if not rows:
        return
    size = prod(loop_extent(sch, loop) or 1 for loop in rows)
    widths = [4 * how.lanes, 2 * how.lanes, how.lanes, LAST_LANES]
    width = next((width for width in widths if size % width == 0 and size >= 2 * width), None)
    if width is None and not leading and size >= REMAINDER_FROM * how.lanes:
        width = how.lanes
    if width is None:
        return
    outer, vector = sch.split(sch.fuse(*rows), [None, width])
    parts = largest_divisor(size // width, MOST_PARTS) if how.parallel and size % width == 0 else 1
    if size % width:
        mark_remainder(sch, outer)
    if parts > 1:
        part, outer = sch.split(outer, [parts, None])
        sch.reorder(part, *leading, outer, vector)
    reduced = sch.rfactor(vector, 0)
    if parts > 1:
        own = sch.rfactor(sch.get_loops(reduced)[0], 0)
        part, *inner = sch.get_loops(own)
        sch.parallel(part)
        _in_vectors(sch, own, inner)
    _in_vectors(sch, reduced, sch.get_loops(reduced))
    if width >= 2 * LAST_LANES:
        few = sch.rfactor(sch.split(sch.get_loops(block)[0], [None, LAST_LANES])[1], 0)
        _in_vectors(sch, few, sch.get_loops(few))
    sch.decompose_reduction(block, sch.get_loops(block)[0])


def start_before(sch: Schedule, block: SBlock) -> None:
    """Initialize the results of a block before its reduction loops if one of these may have no iteration.

    TVM initializes in the first iteration, and so not at all if there is none.
    """
    node = sch.get(block)
    reduced = [axis.iter_type == tirx.IterVar.CommReduce for axis in node.iter_vars]
    extents = [fixed(axis.dom.extent) for axis in compress(node.iter_vars, reduced)]
    if node.init is None or None not in extents:
        return
    loops = sch.get_loops(block)
    found: list[SBlockRealize] = []
    structural_walk(
        sch.get(loops[-1]),
        (SBlockRealize, lambda one: found.append(one) if one.block.same_as(node) else None),
    )
    values = list(compress(found[0].iter_values, reduced))
    first = next(loop for loop in loops if any(uses(value, sch.get(loop).loop_var) for value in values))
    sch.decompose_reduction(block, first)


def _in_vectors(sch: Schedule, block: SBlock, loops: Any) -> None:
    """Vectorize the innermost of ``loops``, with the initialization before all of them."""
    sch.vectorize(loops[-1])
    sch.decompose_reduction(block, loops[0])


def _partial(sch: Schedule, block: SBlock, cut: Any, innermost: bool, spatial: int, how: Arrangement) -> None:
    """Give each index of the loop ``cut`` a partial result, innermost or outermost in memory, and schedule
    that.

    ``block`` then reduces the partial results.
    """
    place = next(at for at, loop in enumerate(sch.get_loops(block)) if sch.get(loop).same_as(sch.get(cut)))
    kinds = [axis.iter_type for axis in sch.get(block).iter_vars]
    part = sch.rfactor(cut, kinds.count(tirx.IterVar.DataPar) if innermost else 0)
    loops = list(sch.get_loops(part))
    own, kept, reduced = loops[place], loops[:spatial], loops[spatial:]
    reduced.pop(place - spatial)
    _nest(sch, part, [*kept, own] if innermost else [own, *kept], reduced, how)


def _cut(
    sch: Schedule, block: SBlock, spatial: list[Any], reduction: list[Any], how: Arrangement
) -> Any | None:
    """The loop each of whose indices gets a partial result; None for a plain reduction.

    If the data is contiguous along a reduced axis, it is a vector along that axis. If vectors lie along the
    result, but are too few for the threads, it is the first reduced axis.
    """
    node, lanes = sch.get(block), how.lanes
    extents = [loop_extent(sch, loop) for loop in (*spatial, *reduction)]
    if len(node.writes) != 1:
        return None
    innermost = innermost_reduced(node).var
    if how.symbolic_rows and extents[-1] is None and runs_along(node, innermost):
        outer, vector = sch.split(reduction[-1], [None, lanes])
        mark_remainder(sch, outer)
        return vector
    if None in extents[len(spatial) :]:
        return None
    if runs_along(node, innermost):
        row = extents[-1] or 1
        if row >= LONG_FROM * lanes:
            width = MOST_SUMS * lanes
        else:
            # A short row of a temporary was just computed, and is in registers vector by vector.
            longest = lanes if how.rows and _is_of_temporary(sch, node) else 2 * lanes
            all_reduced = prod(extent or 1 for extent in extents[len(spatial) :])
            sizes = (longest, lanes, lanes // 2, LAST_LANES)
            whole = next((size for size in sizes if row % size == 0 and all_reduced >= 2 * size), 0)
            many = REMAINDER_FROM * lanes if whole else lanes
            width = lanes if whole < lanes and row >= many else whole
        if width < LAST_LANES:
            return None
        outer, vector = sch.split(reduction[-1], [None, width])
        if row % width:
            mark_remainder(sch, outer)
        return vector
    if None in extents:
        return None
    vectors = prod(extent or 1 for extent in extents[: len(spatial)]) // lanes
    outer = extents[len(spatial)] or 1
    return reduction[0] if how.parallel and vectors < FEW_PARTS <= outer and len(reduction) > 1 else None


def _rows_run_on(sch: Schedule, block: SBlock, reduction: list[Any]) -> bool:
    """Whether the last two reduced axes are one row in memory of all that a block reads along them.

    Of three, TVM would not see that places in the row are not those of quotients.
    """
    node = sch.get(block)
    axes = [axis for axis in node.iter_vars if axis.iter_type == tirx.IterVar.CommReduce]
    extents = [fixed(axis.dom.extent) for axis in axes]
    if len(axes) < 2 or None in extents or extents != [loop_extent(sch, loop) for loop in reduction]:
        return False
    outer, inner = (axis.var for axis in axes[-2:])
    return runs_along(node, inner) and lie_as_one(node.body, outer, inner, extents[-1])


def _is_of_temporary(sch: Schedule, node: Any) -> bool:
    """Does a block reduce an intermediate buffer of the function?"""
    kept, reduced = temporaries(sch), innermost_reduced(node).var
    loads = [load for load in loads_of(node.body) if holds(kept, load.source)]
    return any(uses(dimensions[-1][0], reduced) for dimensions in map(dimensions_of, loads) if dimensions)


def runs_along(node: Any, axis: tirx.Var) -> bool:
    """Is everything that a block reads along ``axis`` contiguous there?

    Of a product of two matrices one is not: partial results, of each of all its elements, would take many
    times the memory.
    """
    loads = [load for load in loads_of(node.body) if not load.source.same_as(node.writes[0].source)]
    rows = [[index for index, _ in dimensions_of(load)] for load in loads]
    along = [row for row in rows if any(uses(index, axis) for index in row)]
    return bool(along) and all(
        row[-1].same_as(axis) and not any(uses(index, axis) for index in row[:-1]) for row in along
    )


def _nest(sch: Schedule, block: SBlock, spatial: list[Any], reduction: list[Any], how: Arrangement) -> None:
    """Parallelize the outer spatial loops, vectorize the innermost one, and put the reduction between."""
    extent = loop_extent(sch, spatial[-1])
    shared, vector, row = spatial, None, []
    if extent is None and len(spatial) > how.rows + 1 and _lies_in_rows(sch.get(block), len(spatial) - 1):
        # Places in a row are not to be divided out of those of all elements; LLVM makes vectors of it.
        *shared, last = spatial
        spatial, row = shared, [last]
    elif extent is not None and extent > 1 and len(spatial) > how.rows:
        width = _columns(sch, spatial, extent, how)
        if extent >= width >= LAST_LANES:
            outer, vector = sch.split(spatial.pop(), [None, width])
            spatial.append(outer)
            if extent % width:
                # One thread has the vectors that overlap: it sums them from their start, one after the other.
                if how.parallel and _is_alone(sch, spatial):
                    together = divisors(ceil(extent / width))[1]
                    spatial[-1:] = sch.split(outer, [None, together])
                overlap_tail(sch, spatial[-1])
                shared = spatial[:-1]
    sch.reorder(*spatial, *reduction, *row, *([vector] if vector is not None else []))
    if how.parallel:
        sch.parallel(sch.fuse(*fusible(sch, shared)))
    if vector is not None:
        sch.vectorize(vector)
    sch.decompose_reduction(block, reduction[0])


def _columns(sch: Schedule, spatial: list[Any], extent: int, how: Arrangement) -> int:
    """How many neighbours of ``extent``, the innermost of the ``spatial`` loops, are reduced together.

    What is read of one after another lies together, unlike what one of them reads. Several vectors may
    overlap a little, though not where this would leave all of them to one thread, and threads need parts.
    """
    if extent <= MAXIMUM_VECTOR:
        # Of fewer columns than lanes, two shorter vectors overlap.
        return extent if extent % 4 == 0 else min(how.lanes, 1 << (extent.bit_length() - 1))
    rows = size_of([sch.get(loop).extent for loop in spatial[:-1]]) or FEW_PARTS
    for width in range(MAXIMUM_VECTOR, how.lanes, -how.lanes):
        parts = ceil(extent / width)
        shared = not how.parallel or parts * rows >= FEW_PARTS
        if shared and (
            extent % width == 0
            or (parts * width <= MOST_REPEATED * extent and not (how.parallel and _is_alone(sch, spatial)))
        ):
            return width
    return how.lanes


def _lies_in_rows(node: Any, place: int) -> bool:
    """Is what a block reads along the axis at ``place`` in one row each?"""
    axis = node.iter_vars[place].var
    return not any(strides_along(load, axis) for load in loads_of(node.body))


def _is_alone(sch: Schedule, loops: list[Any]) -> bool:
    """Is the last of ``loops`` the only one that threads can share?"""
    return all(loop_extent(sch, loop) == 1 for loop in loops[:-1])
