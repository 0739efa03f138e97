"""Rows that whole vectors do not fill, without a condition on each lane.

A condition would make of every vector of the row as many scalars. Instead the loop takes the whole vectors,
and what is left follows. Where each element is computed by itself, that is a shorter vector. Where they are
summed, it is a whole vector that ends with the row, in which the lanes that were taken before are neutral.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock as Block
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_map, structural_walk

from topi_ext.ir import substitute, unmarked, uses
from topi_ext.schedule.partial_vectors import shortened

RAGGED = "topi_ext.ragged"
"""Loop annotation: its last turn is not whole, of the vector that is the only loop in it."""


def mark_ragged(sch: Schedule, loop: Any) -> None:
    """Mark ``loop`` over the vectors of a row of at least one whole vector."""
    sch.annotate(loop, RAGGED, 1)


def apply_ragged(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite every marked loop of a scheduled function whose reductions are decomposed."""
    starts: list[tirx.BufferStore] = []

    def on_block(block: Block) -> None:
        if isinstance(block.body, tirx.BufferStore) and not len(block.reads):
            starts.append(block.body)

    structural_walk(func.body, (Block, on_block))

    def on_loop(loop: tirx.For) -> Any:
        if RAGGED not in loop.annotations:
            return loop
        rest = _rest(loop, starts)
        if rest is None:
            return loop
        return tirx.SeqStmt([unmarked(loop, RAGGED, _always(loop.body), loop.extent - 1), rest])

    body = structural_map(func.body, (tirx.For, on_loop))
    return func if body.same_as(func.body) else func.with_body(body)


def _rest(loop: tirx.For, starts: list[tirx.BufferStore]) -> Any:
    """What the last turn of ``loop`` does; None where it is no vector under one condition."""
    vector = loop.body
    if not isinstance(vector, tirx.For) or not isinstance(vector.body, SBlockRealize):
        return None
    condition, block = vector.body.predicate, vector.body.block
    store = block.body
    if not isinstance(condition, tirx.LT) or not isinstance(store, tirx.BufferStore):
        return None
    last = {loop.loop_var: loop.extent - 1}
    if all(axis.iter_type == tirx.IterVar.DataPar for axis in block.iter_vars):
        if not isinstance(condition.b, tirx.IntImm):
            return None
        left = condition.b % vector.extent
        return substitute(shortened(vector, left, []), last)
    again = loop.extent * vector.extent - condition.b
    start = next((one.value for one in starts if one.buffer.same_as(store.buffer)), None)
    if start is None or not _is_sum(store):
        return None
    return substitute(_summed(vector, start, again), last)


def _is_sum(store: tirx.BufferStore) -> bool:
    """Whether a statement adds to an element, or the like."""
    value = store.value
    return (
        isinstance(value, tirx.Add | tirx.Mul | tirx.Max | tirx.Min)
        and isinstance(value.a, TensorLoad)
        and bool(value.a.source.same_as(store.buffer))
    )


def _always(vector: tirx.For) -> tirx.For:
    realize = vector.body
    unbounded = SBlockRealize(realize.iter_values, tirx.const(True, "bool"), realize.block)
    return unmarked(vector, RAGGED, unbounded)


def _summed(vector: tirx.For, neutral: Any, again: Any) -> tirx.For:
    """The vector that ends with the row, of which so many lanes were taken before."""
    realize = vector.body
    block, store = realize.block, realize.block.body
    lane = next(
        axis.var
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if uses(value, vector.loop_var)
    )
    moved = {lane: lane - again}
    term = tirx.Select(lane >= again, substitute(store.value.b, moved), neutral)
    value = type(store.value)(store.value.a, term)
    reads = [
        region if region.source.same_as(store.buffer) else _moved(region, moved) for region in block.reads
    ]
    body = Block(
        block.iter_vars,
        reads,
        block.writes,
        block.name_hint,
        tirx.BufferStore(store.buffer, value, store.indices),
    )
    return unmarked(vector, RAGGED, SBlockRealize(realize.iter_values, tirx.const(True, "bool"), body))


def _moved(region: tirx.BufferRegion, moved: dict[tirx.Var, Any]) -> tirx.BufferRegion:
    ranges = [Range.from_min_extent(substitute(part.min, moved), part.extent) for part in region.region]
    return tirx.BufferRegion(region.source, ranges)


__all__ = ["apply_ragged", "mark_ragged"]
