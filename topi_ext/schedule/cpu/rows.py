"""Reductions of rows and their uses, as in softmax and layer norm: one loop over rows around all steps.

Scheduled one by one, each step would stream the whole tensor through memory.
"""

from math import ceil, prod
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock as SBlockNode
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_equal

from topi_ext.extents import fixed
from topi_ext.ir import holds, loads_of, nodes_of
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import (
    SBlock,
    child_blocks,
    has_reduction,
    inline_small,
    is_reduction,
    open_schedule,
)
from topi_ext.schedule.cpu.loops import arrange, finished, with_plain_loops
from topi_ext.schedule.cpu.reductions import Arrangement
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.dynamic_tiles import either
from topi_ext.schedule.nests import one_loop
from topi_ext.schedule.sharing import is_shared
from topi_ext.schedule.work import block_cycles

_WIDTH = 4
"""Bytes of an element, when comparing with cache sizes."""

FEWEST_ROWS = 8
"""With fewer rows, threads would get unequal shares."""

KEPT_FROM = 4.0
"""Cycles per vector from which on a result is kept for its second reader instead of recomputed."""


class Rows(ProcessorRule):
    """Schedules functions in which each row of the result needs sums or maxima over the same row."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for few rows, rows shorter than a vector, and rows larger than half the level-2 cache."""
        return _schedule(func, processor)


def _schedule(func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
    if not has_reduction(func):
        return None
    sch = open_schedule(func)
    blocks = child_blocks(sch)
    if not blocks or is_reduction(sch, blocks[-1]):
        return None
    lanes = processor.lanes(4)
    blocks = inline_cheap(sch, blocks, lanes)
    rows = common_rows(sch, blocks)
    extents = [fixed(axis.dom.extent) for axis in sch.get(blocks[-1]).iter_vars]
    count = prod(FEWEST_ROWS if size is None else size for size in extents[:rows])
    if not rows or count < FEWEST_ROWS:
        return None
    if extents[rows:] == [None]:
        return open_schedule(_of_any_length(func, processor))
    row = prod(0 if size is None else size for size in extents[rows:])
    if not lanes <= row <= processor.l2_bytes // (2 * _WIDTH):
        return None
    return open_schedule(_in_vectors(sch, blocks, Arrangement(lanes, parallel=False, rows=rows), processor))


def _in_vectors(sch: Schedule, blocks: list[SBlock], how: Arrangement, processor: Processor) -> tirx.PrimFunc:
    """All steps in one loop over the rows, which threads share if there is enough work."""
    parallel = sum(block_cycles(sch, block, how.lanes) for block in blocks) > processor.parallel_cycles
    for block in blocks:
        arrange(sch, block, how)
    return one_loop(finished(sch.mod["main"]), how.rows, parallel)


def _of_any_length(func: tirx.PrimFunc, processor: Processor) -> tirx.PrimFunc:
    """The function for rows of unknown length: in vectors if a row has at least one, else in plain loops."""
    lanes = processor.lanes(4)
    sch = open_schedule(func)
    blocks = inline_cheap(sch, child_blocks(sch), lanes)
    how = Arrangement(lanes, parallel=False, rows=common_rows(sch, blocks), symbolic_rows=True)
    length = sch.get(blocks[-1]).iter_vars[-1].dom.extent
    in_vectors = _in_vectors(sch, blocks, how, processor)
    return either(length >= lanes, in_vectors, with_plain_loops(func, processor))


def inline_cheap(sch: Schedule, blocks: list[SBlock], lanes: int) -> list[SBlock]:
    """Inline the blocks that are cheaper to recompute than to store; returns the others."""
    return [
        block
        for block in blocks
        if is_reduction(sch, block)
        or is_shared(sch, block)
        or _is_expensive(sch, block, lanes)
        or not inline_small(sch, block)
    ]


def _is_expensive(sch: Schedule, block: SBlock, lanes: int) -> bool:
    """Is the result read by several blocks, and cheaper to store than to recompute?"""
    if len(sch.get_consumers(block)) < 2:
        return False
    elements = [fixed(axis.dom.extent) or lanes for axis in sch.get(block).iter_vars]
    return block_cycles(sch, block, lanes) > KEPT_FROM * ceil(prod(elements) / lanes)


def common_rows(sch: Schedule, blocks: list[SBlock]) -> int:
    """How many outer axes all ``blocks`` share such that each reads the others at its own index along
    them.
    """
    nodes = [sch.get(block) for block in blocks]
    extents = [axis.dom.extent for axis in nodes[-1].iter_vars]
    computed = [region.source for node in nodes for region in node.writes]
    own = min(_own_axes(node, extents, computed) for node in nodes)
    return min(own, *(_axes_of_loops(sch, block) for block in blocks))


def _axes_of_loops(sch: Schedule, block: SBlock) -> int:
    """How many outer loops of a block are exactly its axes, in order."""
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    found = nodes_of(loops[-1].body if loops else None, SBlockRealize)
    values = found[0].iter_values if found else []
    along = [value.same_as(loop.loop_var) for loop, value in zip(loops, values, strict=False)]
    return [*along, False].index(False)


def _own_axes(node: SBlockNode, extents: list[Any], computed: list[Any]) -> int:
    """Outer axes of a block, of these extents, that index its store and all its reads of ``computed``."""
    kinds = [axis.iter_type for axis in node.iter_vars]
    spatial = kinds.count(tirx.IterVar.DataPar)
    if any(kind != tirx.IterVar.DataPar for kind in kinds[:spatial]) or set(kinds[spatial:]) - {
        tirx.IterVar.CommReduce
    }:
        return 0
    if len(node.writes) != 1 or not isinstance(node.body, tirx.BufferStore):
        return 0
    loads = loads_of(node.body)
    places = [list(node.body.indices)]
    places += [list(load.indices) for load in loads if holds(computed, load.source)]
    shared = 0
    for axis, extent in zip(node.iter_vars[:spatial], extents, strict=False):
        if not structural_equal(axis.dom.extent, extent):
            break
        if any(len(indices) <= shared or not _is_own(indices[shared], axis) for indices in places):
            break
        shared += 1
    return shared


def _is_own(index: Any, axis: tirx.IterVar) -> bool:
    return bool(index.same_as(axis.var)) or (fixed(axis.dom.extent) == 1 and fixed(index) == 0)
