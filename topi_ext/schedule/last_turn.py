"""The last turn of a loop apart from the others, which then have none of the conditions that it fails."""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock as Block
from tvm.s_tir import Schedule
from tvm_ffi import structural_map

from topi_ext.ir import substitute, unmarked

_LAST_APART = "topi_ext.last_apart"
"""Loop annotation: conditions fail in its last turn alone."""


def mark_last_apart(sch: Schedule, loop: Any) -> None:
    """Mark a loop of two turns or more; :func:`apply_last_apart` must follow."""
    sch.annotate(loop, _LAST_APART, 1)


def apply_last_apart(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with the last turn of each marked loop behind the loop."""

    def on_loop(loop: tirx.For) -> Any:
        if _LAST_APART not in loop.annotations:
            return loop
        others = unmarked(loop, _LAST_APART, loop.body, loop.extent - 1)
        last = substitute(structural_map(loop.body, (Block, _copy)), {loop.loop_var: loop.extent - 1})
        return tirx.SeqStmt([others, last])

    body = structural_map(func.body, (tirx.For, on_loop))
    return func if body.same_as(func.body) else func.with_body(body)


def _copy(block: Block) -> Block:
    """A block of its own, of another name: a schedule has each only once."""
    return Block(
        block.iter_vars,
        block.reads,
        block.writes,
        f"{block.name_hint}_last",
        block.body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )


__all__ = ["apply_last_apart", "mark_last_apart"]
