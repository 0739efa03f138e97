"""Asynchronous copies among the products of a turn, which no pass of TVM's knows of.

TVM issues the copies of a later tile, waits for those of this turn, and multiplies: with a barrier before the
copies, which write where the turn before has read, and one behind the wait. The second alone is enough where
copies come behind it. They are spread among the products then: a warp that has a scheduler for itself issues
them while its tensor cores are busy.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Call, Op
from tvm_ffi import structural_map

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.cuda.codegen.statements import flat, holds, is_barrier, with_body
from topi_ext.ir import changed

COMMIT_COPIES, WAIT_FOR_COPIES = "async_commit_queue_scope", "async_wait_queue_scope"

_MULTIPLY = Op.get("tirx.ptx_legacy.mma")


@function_pass
def order_copies(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """One barrier in each turn of the loop over tiles, and the copies of a later tile behind it.

    Expects device functions with flat buffers whose copies are as wide as they will be. Loops of wgmma have
    another order already.
    """
    return replaced(func, (tirx.For, _ordered))


def _ordered(loop: tirx.For) -> Any:
    parts = copies_and_products(loop)
    if parts is None:
        return loop
    group, products = parts
    copies, waited = flat(group.body), flat(products.body.body)
    if not is_barrier(copies[0]) or not is_barrier(waited[0]):
        return loop
    copies = [one for copy in copies[1:] for one in _apart(copy)]
    commit = changed(group, body=tirx.Evaluate(0))
    body = [waited[0], *_spread(waited[1:], copies), commit]
    return with_body(loop, before_copies(products, tirx.SeqStmt(body)))


def copies_and_products(loop: tirx.For) -> tuple[tirx.AttrStmt, tirx.AttrStmt] | None:
    """What a loop over tiles does in each turn: copies, as a group, and what waits for those of an earlier
    turn; None for other loops.
    """
    parts = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else []
    keys = [part.attr_key if isinstance(part, tirx.AttrStmt) else "" for part in parts]
    return (parts[0], parts[1]) if keys == [COMMIT_COPIES, WAIT_FOR_COPIES] else None


def before_copies(products: tirx.AttrStmt, body: Any) -> tirx.AttrStmt:
    """The products with another body, in front of the copies of their turn: one group fewer is under way."""
    count = products.body
    return changed(products, body=changed(count, value=count.value - 1, body=body))


def _apart(statement: Any) -> list[Any]:
    """The turns of a loop around copies one by one, where their number is known."""
    if not isinstance(statement, tirx.For) or not isinstance(statement.extent, tirx.IntImm):
        return [statement]
    turns = [
        structural_map(
            statement.body,
            (
                tirx.Var,
                lambda found, turn=turn: statement.min + turn if found.same_as(statement.loop_var) else found,
            ),
        )
        for turn in range(int(statement.extent))
    ]
    return [one for turn in turns for part in flat(turn) for one in _apart(part)]


def _spread(products: list[Any], copies: list[Any]) -> list[Any]:
    """The copies evenly behind the first half of the products; all in front without tensor cores."""
    places = [place for place, part in enumerate(products) if _multiplies(part)]
    if not places:
        return [*copies, *products]
    result: list[Any] = []
    issued = multiplied = 0
    for part in products:
        result.append(part)
        if _multiplies(part):
            multiplied += 1
            due = min(len(copies), -(-len(copies) * 2 * multiplied // len(places)))
            result += copies[issued:due]
            issued = due
    return result


def _multiplies(statement: Any) -> bool:
    return holds(statement, Call, lambda call: call.op.same_as(_MULTIPLY))
