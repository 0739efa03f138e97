"""Sums and maxima along the last axis that every element of it then uses: layer norm, softmax.

As many lanes share a row as divide its vectors evenly, a power of two up to a warp, and hand their parts
around by shuffles. A row is read once for each sum and once for the result, from the first-level cache but
for the first time.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from topi_ext.cuda.multiprocessor import LANES
from topi_ext.cuda.schedule.epilogue import result_run
from topi_ext.divisors import largest_divisor
from topi_ext.schedule.blocks import child_blocks, is_reduction, loop_extent, open_schedule, try_inline

FEWEST_LANES = 4
"""With fewer on a row, threads of a warp would read far from each other."""

THREADS = 256
"""The most threads of a block."""

MOST_UNROLLED = 16
"""Vectors of a row that a lane asks for at once at most; of a longer row its loop stays one."""


def schedule_normalization(func: PrimFunc) -> Schedule | None:
    """Arrange a function whose result has the rows that it reduces; None for any other."""
    sch = open_schedule(func)
    *before, out = child_blocks(sch) or [None]
    sums = [block for block in before if is_reduction(sch, block)]
    if not sums or is_reduction(sch, out):
        return None
    if not all(try_inline(sch, block) for block in before if not is_reduction(sch, block)):
        return None
    extents = [loop_extent(sch, loop) for loop in sch.get_loops(out)]
    known = [extent for extent in extents if extent is not None]
    if len(known) < len(extents) or not all(_is_along_last(sch, block, known) for block in sums):
        return None
    *rows, columns = known
    vector = result_run(columns)
    lanes = min(LANES, columns // vector & -(columns // vector))
    if lanes < FEWEST_LANES:
        return None
    pairs = [_parts(sch, block, lanes, vector) for block in sums]
    *loops, column = sch.get_loops(out)
    # The rows of a block are of one axis: TVM follows no rows that are fused and split again.
    last = loops.pop() if loops else sch.add_unit_loop(column)
    others, thread = sch.split(last, [None, largest_divisor(rows[-1] if rows else 1, THREADS // lanes)])
    row = sch.fuse(*loops, others)
    turn, lane, element = sch.split(column, [None, lanes, vector])
    for loop, name in ((row, "blockIdx.x"), (thread, "threadIdx.y"), (lane, "threadIdx.x")):
        sch.bind(loop, name)
    _unroll_short(sch, turn)
    sch.vectorize(element)
    for partial, total in reversed(pairs):
        sch.compute_at(total, thread, preserve_unit_loops=True)
        sch.compute_at(partial, thread, preserve_unit_loops=True)
        _arrange(sch, partial, total)
    return sch


def _is_along_last(sch: Schedule, block: Any, extents: list[int]) -> bool:
    axes = sch.get(block).iter_vars
    reduced = [axis.iter_type == tirx.IterVar.CommReduce for axis in axes]
    return (
        reduced == [False] * (len(axes) - 1) + [True]
        and [loop_extent(sch, loop) for loop in sch.get_loops(block)] == extents
    )


def _parts(sch: Schedule, block: Any, lanes: int, vector: int) -> tuple[Any, Any]:
    """The block of what each lane reduces by itself, and that of what the lanes make of it."""
    *_, column = sch.get_loops(block)
    _, lane, _ = sch.split(column, [None, lanes, vector])
    partial = sch.rfactor(lane, 0)
    total = next(found for found in sch.get_consumers(partial) if is_reduction(sch, found))
    for found in (partial, total):
        sch.set_scope(found, 0, "local")
    return partial, total


def _arrange(sch: Schedule, partial: Any, total: Any) -> None:
    axes = [axis.iter_type == tirx.IterVar.CommReduce for axis in sch.get(total).iter_vars]
    units = sch.get_loops(total)[2:]
    lane = units.pop(axes.index(True))
    sch.reorder(*units, lane)
    sch.bind(lane, "threadIdx.x")
    # The lane is its first axis, that of the sum its last ones.
    lane, *_, turn, element = sch.get_loops(partial)[2:]
    sch.bind(lane, "threadIdx.x")
    parameters = list(sch.mod["main"].params)
    for place, region in enumerate(sch.get(partial).reads):
        if any(region.source.same_as(parameter) for parameter in parameters):
            copy = sch.cache_read(partial, place, "local", [partial])
            sch.compute_at(copy, turn, preserve_unit_loops=True)
            sch.vectorize(sch.get_loops(copy)[-1])
    sch.decompose_reduction(partial, turn)
    _unroll_short(sch, turn)
    sch.unroll(element)


def _unroll_short(sch: Schedule, turn: Any) -> None:
    if (loop_extent(sch, turn) or 1) <= MOST_UNROLLED:
        sch.unroll(turn)
