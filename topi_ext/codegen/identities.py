"""What maxima and minima begin with: infinity.

TVM's schedules divide a maximum between vectors and threads where it begins with the least finite number,
which is not the maximum of infinities, nor of nothing. So that is replaced once a function is scheduled.
"""

from math import inf
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock
from tvm_ffi import structural_map

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.ir import changed

EXTREME = "extreme"
"""What the names of blocks of :func:`topi_ext.compute.extremes.extreme` begin with."""

MAXIMA = "max_pool2d"
"""What the names of blocks of :func:`topi_ext.compute.pooling.max_pool2d` begin with."""

_INIT = "_init"
"""What the names of blocks end with that store what a reduction begins with."""


@function_pass
def begin_with_infinity(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Blocks of extremes, of whole axes or of windows, begin with infinity, scheduled or not."""
    return from_infinity(func)


def from_infinity(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with such blocks beginning with infinity."""
    return replaced(func, (SBlock, _infinite))


def _infinite(block: SBlock) -> SBlock:
    if not block.name_hint.startswith((EXTREME, MAXIMA)):
        return block
    apart = block.name_hint.endswith(_INIT)
    body = _without_limit(block.body) if apart else block.body
    init = None if block.init is None else _without_limit(block.init)
    return changed(block, body=body, init=init)


def _without_limit(statement: Any) -> Any:
    return structural_map(statement, (tirx.BufferStore, _stores_infinity))


def _stores_infinity(store: tirx.BufferStore) -> tirx.BufferStore:
    if not isinstance(store.value, tirx.FloatImm):
        return store
    dtype, value = str(store.value.ty.dtype), float(store.value.value)
    limits = {float(of(dtype).value): bound for of, bound in ((tirx.min_value, -inf), (tirx.max_value, inf))}
    # Sums and products of a tensor are named after it, whatever a model calls it.
    if value not in limits:
        return store
    return tirx.BufferStore(store.buffer, tirx.const(limits[value], dtype), store.indices)
