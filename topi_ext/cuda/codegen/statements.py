"""Statements of device functions, as passes over them ask for them."""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.ir import Call, Op
from tvm.tirx.script import builder as T

from topi_ext.cuda.codegen.device_functions import called
from topi_ext.ir import changed, nodes_of

ASYNC_COPY = Op.get("tirx.s_tir.cp_async_raw")
"""Copies from global to shared memory, while the thread goes on."""

_BARRIER = Op.get("tirx.tvm_storage_sync")


def is_call(statement: Any, name: str) -> bool:
    """Is a statement a call of the device function, or one of its kind?"""
    found = statement.value if isinstance(statement, tirx.Evaluate) else None
    return isinstance(found, Call) and called(found).startswith(name)


def is_barrier(statement: Any) -> bool:
    """Is a statement one that all threads of a block wait at? Lanes of a warp need none."""
    found = statement.value if isinstance(statement, tirx.Evaluate) else None
    if not isinstance(found, Call) or not found.op.same_as(_BARRIER):
        return False
    return str(found.args[0].value).startswith("shared")


def flat(statement: Any) -> list[Any]:
    """The statements of a sequence, those of sequences within it among them."""
    if not isinstance(statement, tirx.SeqStmt):
        return [statement]
    return [part for inner in statement.seq for part in flat(inner)]


def holds(statement: Any, kind: Any, accept: Callable[[Any], bool]) -> bool:
    """Is a node of the kind within a statement or an expression that ``accept`` says yes to?"""
    return any(map(accept, nodes_of(statement, kind)))


def with_body(loop: tirx.For, body: Any, annotations: Any = None) -> tirx.For:
    """The loop around another body, with other annotations where they are given."""
    kept = loop.annotations if annotations is None else annotations
    return changed(loop, body=body, annotations=kept)


def barrier() -> tirx.Evaluate:
    """What all threads of a block wait at."""
    return tirx.Evaluate(T.tvm_storage_sync("shared.dyn"))
