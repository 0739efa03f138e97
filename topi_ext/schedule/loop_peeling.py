"""Loop peeling: the last iteration is split off, so that the loop needs no condition that only it fails."""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock as Block
from tvm.s_tir import Schedule
from tvm_ffi import structural_map

from topi_ext.ir import changed, substitute, unmarked, with_loops

_PEELED = "topi_ext.peeled"
"""Loop annotation: conditions on its variable can fail in the last iteration only."""


def mark_peeled(sch: Schedule, loop: Any) -> None:
    """Mark a loop of at least two iterations to be peeled by :func:`apply_peeling`."""
    sch.annotate(loop, _PEELED, 1)


def apply_peeling(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with the last iteration of each marked loop moved behind the loop."""

    def on_loop(loop: tirx.For) -> Any:
        if _PEELED not in loop.annotations:
            return loop
        others = unmarked(loop, _PEELED, loop.body, loop.extent - 1)
        last = substitute(structural_map(loop.body, (Block, _copy)), {loop.loop_var: loop.extent - 1})
        return tirx.SeqStmt([others, last])

    return with_loops(func, on_loop)


def _copy(block: Block) -> Block:
    """A copy under another name, as the blocks of a schedule are distinct."""
    return changed(block, name_hint=f"{block.name_hint}_last")
