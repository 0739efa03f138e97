"""Finding and preparing the blocks of a fused function before its loops are arranged."""

from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.workload import ANNOTATION

SBlock = Any
"""A block of a schedule (``tvm.s_tir.schedule.SBlockRV``)."""


def open_schedule(func: tirx.PrimFunc) -> Schedule:
    """A schedule of one function, without the debug checks that slow large functions down."""
    return Schedule(func, debug_mask="none", error_render_level="none")


def child_blocks(sch: Schedule) -> list[SBlock]:
    """The blocks of the function in the order in which they compute."""
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def annotated_block(sch: Schedule) -> tuple[SBlock, str] | None:
    """The block that carries a workload, and the workload as it was serialised."""
    for block in child_blocks(sch):
        annotations = sch.get(block).annotations
        if ANNOTATION in annotations:
            return block, str(annotations[ANNOTATION])
    return None


def inline_epilogue(sch: Schedule, anchor: SBlock) -> SBlock | None:
    """Inline everything after ``anchor`` into the last block, which writes the function's output.

    Returns that block; None where ``anchor`` itself writes the output.
    """
    blocks = child_blocks(sch)
    names = [sch.get(block).name_hint for block in blocks]
    after = blocks[names.index(sch.get(anchor).name_hint) + 1 :]
    for block in after[:-1]:
        sch.compute_inline(block)
    return after[-1] if after else None


def is_reduction(sch: Schedule, block: SBlock) -> bool:
    """Does the block reduce over any of its axes?"""
    return any(axis.iter_type == tirx.IterVar.CommReduce for axis in sch.get(block).iter_vars)


def loop_extent(sch: Schedule, loop: Any) -> int | None:
    """The extent of a loop, None where it is symbolic."""
    extent = sch.get(loop).extent
    return int(extent) if isinstance(extent, (int, tirx.IntImm)) else None
