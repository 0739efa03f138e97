"""Loops of sums and maxima: partial results side by side in a vector, or for each thread."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm_ffi import structural_walk

from topi_ext.schedule.blocks import SBlock, fusible, holds, loop_extent, temporaries
from topi_ext.schedule.overlap import uses

MAXIMUM_VECTOR = 64
"""Longest innermost loop that is vectorised whole."""

RAGGED_FROM = 2
"""Vectors in a row from which what is left of it may be reduced by itself."""

FEW_PARTS = 8
"""A reduction of fewer independent vectors is cut along what it reduces, so that threads find work."""

LAST_LANES = 4
"""Partial results that are reduced one after the other; more of them are first reduced to as many."""


@dataclass(frozen=True)
class Arrangement:
    """How loops are arranged: ``lanes`` of a vector, threads or not, and ``rows`` outer loops that stay."""

    lanes: int
    parallel: bool
    rows: int = 0


def arrange_reduction(
    sch: Schedule, block: SBlock, spatial: list[Any], reduction: list[Any], how: Arrangement
) -> None:
    """Arrange the loops of one block, the last ``reduction`` of which are reduced."""
    cut = _cut(sch, block, spatial, reduction, how)
    if cut is None:
        _nest(sch, block, spatial, reduction, how)
        return
    innermost = not cut.same_as(reduction[0])
    width = loop_extent(sch, cut) or 1
    _partial(sch, block, cut, innermost, len(spatial), how)
    how = replace(how, parallel=False)
    if innermost and width >= 2 * LAST_LANES:
        last = sch.split(sch.get_loops(block)[-1], [None, LAST_LANES])[1]
        _partial(sch, block, last, True, len(spatial), how)
    loops = list(sch.get_loops(block))
    _nest(sch, block, loops[: len(spatial)], loops[len(spatial) :], how)


def _partial(sch: Schedule, block: SBlock, cut: Any, innermost: bool, spatial: int, how: Arrangement) -> None:
    """Give each index of ``cut`` a partial result, innermost or outermost in memory; ``block`` reduces it."""
    place = next(at for at, loop in enumerate(sch.get_loops(block)) if sch.get(loop).same_as(sch.get(cut)))
    part = sch.rfactor(cut, spatial if innermost else 0)
    loops = list(sch.get_loops(part))
    own, kept, reduced = loops[place], loops[:spatial], loops[spatial:]
    reduced.pop(place - spatial)
    _nest(sch, part, [*kept, own] if innermost else [own, *kept], reduced, how)


def _cut(
    sch: Schedule, block: SBlock, spatial: list[Any], reduction: list[Any], how: Arrangement
) -> Any | None:
    """The loop of which each index gets a partial result of its own; None where none should.

    Neighbours that are reduced together stay apart as the lanes of a vector. Where vectors run along the
    result already, but are few, it is the first reduced dimension, so that threads find work.
    """
    node, lanes = sch.get(block), how.lanes
    extents = [loop_extent(sch, loop) for loop in (*spatial, *reduction)]
    if len(node.writes) != 1 or None in extents:
        return None
    if _runs_along(
        node, [axis for axis in node.iter_vars if axis.iter_type == tirx.IterVar.CommReduce][-1].var
    ):
        row = extents[-1] or 1
        # A row that was just computed is in registers, vector by vector.
        longest = lanes if how.rows and _is_of_temporary(sch, node) else 2 * lanes
        whole = next((size for size in (longest, lanes, lanes // 2, 4) if row % size == 0), 0)
        width = lanes if whole < lanes and row >= RAGGED_FROM * lanes else whole
        if width < 4 or prod(extent or 1 for extent in extents[len(spatial) :]) < 2 * width:
            return None
        outer, vector = sch.split(reduction[-1], [None, width])
        if row % width:
            # TVM puts the last turn, which is not whole, behind the loop of the others.
            sch.annotate(outer, "pragma_loop_partition_hint", 1)
        return vector
    vectors = prod(extent or 1 for extent in extents[: len(spatial)]) // lanes
    outer = extents[len(spatial)] or 1
    return reduction[0] if how.parallel and vectors < FEW_PARTS <= outer and len(reduction) > 1 else None


def _is_of_temporary(sch: Schedule, node: Any) -> bool:
    """Whether a block reduces what the function keeps for itself."""
    kept, reduced = temporaries(sch), node.iter_vars[-1].var
    loads: list[Any] = []
    structural_walk(node.body, (TensorLoad, loads.append))
    return any(holds(kept, load.source) and uses(load.indices[-1], reduced) for load in loads)


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


def _nest(sch: Schedule, block: SBlock, spatial: list[Any], reduction: list[Any], how: Arrangement) -> None:
    """Threads over the outer spatial axes, vectors over the innermost one, the reduction between."""
    extent = loop_extent(sch, spatial[-1])
    vector = None
    if extent is not None and extent > 1 and len(spatial) > how.rows:
        width = extent if extent <= MAXIMUM_VECTOR and extent % 4 == 0 else how.lanes
        if extent >= width:
            outer, vector = sch.split(spatial.pop(), [None, width])
            spatial.append(outer)
    sch.reorder(*spatial, *reduction, *([vector] if vector is not None else []))
    if how.parallel:
        sch.parallel(sch.fuse(*fusible(sch, spatial)))
    if vector is not None:
        sch.vectorize(vector)
    sch.decompose_reduction(block, reduction[0])


__all__ = ["MAXIMUM_VECTOR", "Arrangement", "arrange_reduction"]
