"""Reductions along rows whose length is known at run time only, such as sums of signals of any length.

Without vectors along the row, each sum would wait for the one before it.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.extents import fixed
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import SBlock, child_blocks, has_reduction, open_schedule
from topi_ext.schedule.cpu.loops import arrange, arrange_block, finished, with_plain_loops
from topi_ext.schedule.cpu.reductions import Arrangement, runs_along, start_before
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.dynamic_tiles import either
from topi_ext.schedule.inlining import inlined
from topi_ext.schedule.named_extents import with_named_extents
from topi_ext.schedule.work import block_cycles


class OpenRows(ProcessorRule):
    """Schedules functions that reduce contiguous rows of unknown length: in vectors where rows have one."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for functions without such a reduction."""
        if not has_reduction(func):
            return None
        plain = with_named_extents(func)
        sch = open_schedule(inlined(plain))
        blocks = child_blocks(sch)
        lengths = [_row_length(sch, block) for block in blocks]
        found = [length for length in lengths if length is not None]
        if not found:
            return None
        for block, length in zip(blocks, lengths, strict=True):
            lanes = processor.lanes(4)
            if length is None:
                arrange_block(sch, block, lanes, processor.parallel_cycles)
                continue
            parallel = block_cycles(sch, block, lanes) > processor.parallel_cycles
            arrange(sch, block, Arrangement(lanes, parallel, symbolic_rows=True))
        for block in child_blocks(sch):
            start_before(sch, block)
        has_vectors = tirx.all(*(length >= lanes for length in found))
        return open_schedule(
            either(has_vectors, finished(sch.mod["main"]), with_plain_loops(plain, processor))
        )


def _row_length(sch: Schedule, block: SBlock) -> Any | None:
    """The extent of the innermost axis that a block reduces; None where it is known, or data are not
    contiguous along it.
    """
    node = sch.get(block)
    axes = node.iter_vars
    if not axes or len(axes) != len(sch.get_loops(block)) or len(node.writes) != 1:
        return None
    kinds = [axis.iter_type for axis in axes]
    spatial = kinds.count(tirx.IterVar.DataPar)
    if not spatial or kinds[spatial:] != [tirx.IterVar.CommReduce] * (len(axes) - spatial):
        return None
    if spatial == len(axes) or fixed(axes[-1].dom.extent) is not None:
        return None
    return axes[-1].dom.extent if runs_along(node, axes[-1].var) else None
