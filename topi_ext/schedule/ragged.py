"""Rows that whole vectors do not fill, reduced without a condition on each lane.

A condition would make of every vector of the row as many scalars. Instead the loop takes the whole vectors,
and a last vector, which ends with the row, follows; the lanes that were taken before are neutral in it.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock as Block
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_map, structural_walk

from topi_ext.schedule.overlap import substitute, uses

RAGGED = "topi_ext.ragged"
"""Loop annotation: its last turn is not whole, of the vector that is the only loop in it."""


def mark_ragged(sch: Schedule, loop: Any) -> None:
    """Mark ``loop`` over the vectors of a row of at least one whole vector, which a block reduces."""
    sch.annotate(loop, RAGGED, 1)


def apply_ragged(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite every marked loop of a scheduled function whose reduction is decomposed."""
    starts: list[tirx.BufferStore] = []

    def on_block(block: Block) -> None:
        if isinstance(block.body, tirx.BufferStore) and not len(block.reads):
            starts.append(block.body)

    structural_walk(func.body, (Block, on_block))

    def on_loop(loop: tirx.For) -> Any:
        vector = loop.body
        if RAGGED not in loop.annotations or not _is_sum(vector):
            return loop
        store = vector.body.block.body
        start = next((one.value for one in starts if one.buffer.same_as(store.buffer)), None)
        if start is None:
            return loop
        whole = _with_body(loop, loop.extent - 1, _always(vector))
        return tirx.SeqStmt([whole, _rest(loop, vector, start)])

    body = structural_map(func.body, (tirx.For, on_loop))
    return func if body.same_as(func.body) else func.with_body(body)


def _with_body(loop: tirx.For, extent: Any, body: Any) -> tirx.For:
    annotations = {key: value for key, value in loop.annotations.items() if key != RAGGED}
    return tirx.For(
        loop.loop_var, loop.min, extent, loop.kind, body, loop.thread_binding, annotations, loop.step
    )


def _is_sum(vector: Any) -> bool:
    """Whether a loop does nothing but add, or the like, to as many elements, those of one condition."""
    if not isinstance(vector, tirx.For) or not isinstance(vector.body, SBlockRealize):
        return False
    condition, store = vector.body.predicate, vector.body.block.body
    return (
        isinstance(condition, tirx.LT)
        and isinstance(condition.b, tirx.IntImm)
        and isinstance(store, tirx.BufferStore)
        and isinstance(store.value, tirx.Add | tirx.Mul | tirx.Max | tirx.Min)
        and isinstance(store.value.a, TensorLoad)
        and bool(store.value.a.source.same_as(store.buffer))
    )


def _always(vector: tirx.For) -> tirx.For:
    realize = vector.body
    unbounded = SBlockRealize(realize.iter_values, tirx.const(True, "bool"), realize.block)
    return _with_body(vector, vector.extent, unbounded)


def _rest(loop: tirx.For, vector: tirx.For, neutral: Any) -> tirx.For:
    """The vector that ends with the row."""
    realize, lanes = vector.body, int(vector.extent)
    block, store = realize.block, realize.block.body
    again = -int(realize.predicate.b) % lanes
    lane = next(
        axis.var
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if uses(value, vector.loop_var)
    )
    moved = {lane: lane - again}
    term = tirx.Select(lane >= again, substitute(store.value.b, moved), neutral)
    value = type(store.value)(store.value.a, term)
    reads = [
        region
        if region.source.same_as(store.buffer)
        else tirx.BufferRegion(
            region.source,
            [Range.from_min_extent(substitute(part.min, moved), part.extent) for part in region.region],
        )
        for region in block.reads
    ]
    body = Block(
        block.iter_vars,
        reads,
        block.writes,
        block.name_hint,
        tirx.BufferStore(store.buffer, value, store.indices),
    )
    last = {loop.loop_var: loop.extent - 1}
    values = [substitute(one, last) for one in realize.iter_values]
    return _with_body(vector, vector.extent, SBlockRealize(values, tirx.const(True, "bool"), body))


def _moved(region: tirx.BufferRegion, moved: dict[tirx.Var, Any]) -> tirx.BufferRegion:
    ranges = [Range.from_min_extent(substitute(part.min, moved), part.extent) for part in region.region]
    return tirx.BufferRegion(region.source, ranges)


__all__ = ["apply_ragged", "mark_ragged"]
