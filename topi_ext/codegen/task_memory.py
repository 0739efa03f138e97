"""Memory that parallel loops work in, once for each thread rather than for each turn.

TVM allocates the buffers of a turn when it begins and gives them back when it ends, which takes as long as a
small turn. A thread has its turns one after the other, so that all of them can work in the same memory.
"""

from typing import Any

from tvm import tirx

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.ir import changed, nodes_of, sequence, uses

KEEP = "disable_lower_builtin"
"""TVM's annotation for allocations that the code generator is to put on the stack."""

_LAUNCH = "pragma_parallel_launch_point"
"""TVM's attribute for what each thread executes on its own, around a loop whose turns threads share."""


@function_pass
def allocate_once(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with buffers of turns of parallel loops allocated in front of these, but for those that
    lie on the stack, and those whose size a turn tells.
    """
    return replaced(func, (tirx.For, _with_memory))


def _with_memory(loop: tirx.For) -> Any:
    if loop.kind != tirx.ForKind.PARALLEL or not isinstance(loop.body, tirx.SeqStmt):
        return loop
    own = [loop.loop_var, *(bound.var for bound in nodes_of(loop.body, tirx.Bind))]
    moved = [part for part in loop.body.seq if _is_moved(part, own)]
    if not moved:
        return loop
    kept = [part for part in loop.body.seq if not any(part.same_as(each) for each in moved)]
    turns = changed(loop, body=sequence(kept))
    return tirx.AttrStmt(loop.loop_var, _LAUNCH, tirx.const(1), tirx.SeqStmt([*moved, turns]))


def _is_moved(statement: Any, own: list[tirx.Var]) -> bool:
    if not isinstance(statement, tirx.AllocBuffer) or KEEP in statement.annotations:
        return False
    return not any(uses(extent, variable) for extent in statement.buffer.shape for variable in own)
