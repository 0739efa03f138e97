"""Maxima and minima begin with infinity.

TVM's schedules divide a maximum between vectors and threads where it begins with the least finite number,
which is not the maximum of infinities, nor of nothing. So that is replaced once a function is scheduled.
"""

from functools import partial
from math import inf
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.ir import holds, nodes_of

INFINITE = "topi_ext.infinite_extreme"
"""Annotation of blocks of maxima and minima whose data may be infinite, or nothing."""


@function_pass
def begin_with_infinity(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """What blocks with :data:`INFINITE` compute begins with infinity, scheduled or not."""
    return from_infinity(func)


def from_infinity(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with such blocks beginning with infinity."""
    blocks = [block for block in nodes_of(func.body, SBlock) if INFINITE in block.annotations]
    # What one thread's share begins with is stored by a block of TVM's that has no annotations.
    extremes = [region.source for block in blocks for region in block.writes]
    return replaced(func, (tirx.BufferStore, partial(_infinite, extremes))) if extremes else func


def _infinite(extremes: list[Any], store: tirx.BufferStore) -> tirx.BufferStore:
    if not isinstance(store.value, tirx.FloatImm) or not holds(extremes, store.buffer):
        return store
    dtype, value = str(store.value.ty.dtype), float(store.value.value)
    limits = {float(of(dtype).value): bound for of, bound in ((tirx.min_value, -inf), (tirx.max_value, inf))}
    return tirx.BufferStore(store.buffer, tirx.const(limits.get(value, value), dtype), store.indices)
