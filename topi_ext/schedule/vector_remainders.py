"""Vector remainders: rows whose extent is no multiple of the vector length, without a condition on each lane.

A predicate would turn every vector of the row into scalars. Instead the loop covers the whole vectors, and
the remainder follows it. For elementwise blocks that is one shorter vector, and so it is for reductions of
short rows of a temporary, which stay in registers as long as no two vectors of them overlap. For other
reductions it is one vector of full length that ends with the row; its lanes that an earlier vector has
reduced hold the neutral element.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock as Block
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_walk

from topi_ext.extents import fixed
from topi_ext.ir import holds, loads_of, substitute, unmarked, uses, with_loops
from topi_ext.schedule.partial_vectors import shortened

REMAINDER = "topi_ext.vector_remainder"
"""Annotation of a loop around one vectorized loop, whose last vector is partial."""

MOST_IN_REGISTERS = 8
"""Vectors of a row up to which LLVM unrolls the loops over it, and keeps a temporary of it in registers."""


def mark_remainder(sch: Schedule, loop: Any) -> None:
    """Mark ``loop`` over the vectors of a row, which has at least one whole vector."""
    sch.annotate(loop, REMAINDER, 1)


def apply_remainders(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite every marked loop of a scheduled function whose reductions are decomposed."""
    starts: list[tirx.BufferStore] = []
    temporaries = func.body.block.alloc_buffers if isinstance(func.body, SBlockRealize) else []

    def on_block(block: Block) -> None:
        if isinstance(block.body, tirx.BufferStore) and not len(block.reads):
            starts.append(block.body)

    structural_walk(func.body, (Block, on_block))

    def on_loop(loop: tirx.For) -> Any:
        if REMAINDER not in loop.annotations:
            return loop
        last = _last_vector(loop, starts, temporaries)
        if last is None:
            return loop
        return tirx.SeqStmt([unmarked(loop, REMAINDER, _unconditional(loop.body), loop.extent - 1), last])

    return with_loops(func, on_loop)


def _last_vector(loop: tirx.For, starts: list[tirx.BufferStore], temporaries: Any) -> Any:
    """The last iteration of ``loop``; None unless its body is one vector under one condition."""
    vector = loop.body
    if not isinstance(vector, tirx.For) or not isinstance(vector.body, SBlockRealize):
        return None
    condition, block = vector.body.predicate, vector.body.block
    store = block.body
    if not isinstance(condition, tirx.LT) or not isinstance(store, tirx.BufferStore):
        return None
    at_end = {loop.loop_var: loop.extent - 1}
    is_reduction = any(axis.iter_type != tirx.IterVar.DataPar for axis in block.iter_vars)
    if not is_reduction or _is_in_registers(loop, vector, temporaries):
        if not isinstance(condition.b, tirx.IntImm):
            return None
        left = condition.b % vector.extent
        return substitute(shortened(vector, left, []), at_end)
    repeated = loop.extent * vector.extent - condition.b
    start = next((one.value for one in starts if one.buffer.same_as(store.buffer)), None)
    if start is None or not _is_update(store):
        return None
    return substitute(_summed(vector, start, repeated), at_end)


def _is_in_registers(loop: tirx.For, vector: tirx.For, temporaries: Any) -> bool:
    """Are the elements that are reduced those of a short row of a temporary?"""
    if (fixed(loop.extent) or MOST_IN_REGISTERS + 1) > MOST_IN_REGISTERS:
        return False
    realize = vector.body
    lane = _lane(vector)
    result = realize.block.body.buffer
    loads = [load for load in loads_of(realize.block.body) if not load.source.same_as(result)]
    return any(holds(temporaries, load.source) and uses(load.indices[-1], lane) for load in loads)


def _lane(vector: tirx.For) -> tirx.Var:
    """The axis of the block in a vectorized loop that the loop runs over."""
    realize = vector.body
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return next(axis.var for axis, value in pairs if uses(value, vector.loop_var))


def _is_update(store: tirx.BufferStore) -> bool:
    """Does a statement update an element by a sum, product, maximum or minimum with another value?"""
    value = store.value
    return (
        isinstance(value, tirx.Add | tirx.Mul | tirx.Max | tirx.Min)
        and isinstance(value.a, TensorLoad)
        and bool(value.a.source.same_as(store.buffer))
    )


def _unconditional(vector: tirx.For) -> tirx.For:
    """The vectorized loop without the predicate of its block."""
    realize = vector.body
    unbounded = SBlockRealize(realize.iter_values, tirx.const(True, "bool"), realize.block)
    return unmarked(vector, REMAINDER, unbounded)


def _summed(vector: tirx.For, neutral: Any, repeated: Any) -> tirx.For:
    """The vector that ends with the row; its first ``repeated`` lanes, reduced before, take ``neutral``."""
    realize = vector.body
    block, store = realize.block, realize.block.body
    lane = _lane(vector)
    moved = {lane: lane - repeated}
    term = tirx.Select(lane >= repeated, substitute(store.value.b, moved), neutral)
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
    return unmarked(vector, REMAINDER, SBlockRealize(realize.iter_values, tirx.const(True, "bool"), body))


def _moved(region: tirx.BufferRegion, moved: dict[tirx.Var, Any]) -> tirx.BufferRegion:
    ranges = [Range.from_min_extent(substitute(part.min, moved), part.extent) for part in region.region]
    return tirx.BufferRegion(region.source, ranges)
