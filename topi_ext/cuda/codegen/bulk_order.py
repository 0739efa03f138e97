"""The order of bulk copies among products of warpgroups, which no pass of TVM's knows of.

A turn waits for the bytes of its tile, issues its products, waits for those of the turn before, and after a
barrier one thread asks for the next tile in the place that these have read. So products of two turns are
under way at a time, and only the copies' own barriers say that a tile is there. Where left operands pass
through registers, which the next turn loads again, a turn waits for its own products.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm_ffi import structural_map

from topi_ext.cuda.codegen.bulk_copies import ARRIVED, BEGIN, END, is_copy
from topi_ext.cuda.codegen.statements import barrier, flat, holds, is_barrier, is_call, with_body
from topi_ext.cuda.codegen.wgmma import is_product, loads_left, proxy_fence, wait, wait_for_earlier
from topi_ext.ir import sequence


def order_bulk_copies(sequence: tirx.SeqStmt, product: Call, first: Any) -> tirx.SeqStmt:
    """The sequence that begins with the copies' barriers, its copies by the thread of which ``first`` holds,
    and with barriers of all threads where they are needed, and nowhere else among the tiles; another sequence
    as it is.

    ``product`` is one of the products.
    """
    parts = flat(sequence)
    if not any(is_call(part, BEGIN) for part in parts):
        return sequence
    last = max(place for place, part in enumerate(parts) if holds(part, Call, is_product))
    arranged = _arranged(parts[: last + 1], product, first)
    ordered = [*arranged, tirx.Evaluate(wait(product)), barrier()]
    for part in parts[last + 1 :]:
        if not is_call(part, END) and not (is_barrier(part) and is_barrier(ordered[-1])):
            ordered.append(part)
    return tirx.SeqStmt(ordered)


def _arranged(parts: list[Any], product: Call, first: Any) -> list[Any]:
    arranged: list[Any] = []
    copies: list[Any] = []
    multiplied = False
    for part in parts:
        if is_barrier(part):
            continue
        if _is_copy(part):
            # Behind products only a turn of the loop copies, which waits for those that it copies over.
            assert not multiplied
            copies.append(part)
            continue
        arranged += _alone(copies, first)
        copies = []
        if is_call(part, BEGIN):
            arranged += [*_alone([part], first), barrier()]
        elif is_call(part, ARRIVED) and loads_left(product) and multiplied:
            arranged += [tirx.Evaluate(wait(product)), part]
        elif isinstance(part, tirx.For) and holds(part, Call, is_copy):
            arranged.append(_turns(part, product, first))
        else:
            arranged.append(structural_map(part, (tirx.Evaluate, _without_barrier)))
        multiplied = multiplied or holds(part, Call, is_product)
    return [*arranged, *_alone(copies, first)]


def _turns(loop: tirx.For, product: Call, first: Any) -> tirx.For:
    """The loop over tiles, the copies of a later one behind the products."""
    parts = flat(loop.body)
    copies = [part for part in parts if _is_copy(part)]
    others = [part for part in parts if not _is_copy(part)]
    waits = [wait(product), proxy_fence()] if loads_left(product) else [wait_for_earlier()]
    body = [
        *_arranged(others, product, first),
        *map(tirx.Evaluate, waits),
        barrier(),
        *_alone(copies, first),
    ]
    return with_body(loop, tirx.SeqStmt(body))


def _alone(statements: list[Any], first: Any) -> list[Any]:
    """Statements of one thread."""
    if not statements:
        return []
    return [tirx.IfThenElse(first, sequence(statements), None)]


def _is_copy(statement: Any) -> bool:
    return isinstance(statement, tirx.Evaluate) and is_copy(statement.value)


def _without_barrier(statement: tirx.Evaluate) -> tirx.Evaluate:
    return tirx.Evaluate(0) if is_barrier(statement) else statement
