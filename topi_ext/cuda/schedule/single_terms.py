"""Reductions of one term, which are none: what they begin with and the sum become one store.

TVM's schedules drop axes of one element, and then fuse what follows a sum into both of its stores, so that
the first one is activated and added to as well.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm_ffi import structural_equal, structural_map

from topi_ext.codegen.passes import replaced
from topi_ext.extents import fixed
from topi_ext.ir import changed
from topi_ext.schedule.blocks import carried_workload

_REDUCTION = tirx.IterVar.CommReduce


@lru_cache(maxsize=4)
def without_single_terms(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with such blocks as plain ones; one around a kernel of ours as it is."""
    return func if carried_workload(func) is not None else replaced(func, (SBlock, _plain))


def _plain(block: SBlock) -> SBlock:
    reduced = [axis for axis in block.iter_vars if axis.iter_type == _REDUCTION]
    if block.init is None or not reduced or any(fixed(axis.dom.extent) != 1 for axis in reduced):
        return block
    if not isinstance(block.init, tirx.BufferStore) or not isinstance(block.body, tirx.BufferStore):
        return block
    axes = [
        tirx.IterVar(axis.dom, axis.var, tirx.IterVar.DataPar, axis.thread_tag)
        if axis.iter_type == _REDUCTION
        else axis
        for axis in block.iter_vars
    ]
    store = tirx.BufferStore(block.body.buffer, _only_term(block.body, block.init.value), block.body.indices)
    return changed(block, iter_vars=axes, body=store, init=None)


def _only_term(store: tirx.BufferStore, begin: Any) -> Any:
    """What is stored of a sum, or the like of it, that begins with ``begin`` and has one term."""
    value = store.value
    if _is_identity(value, begin):
        for own, term in ((value.a, value.b), (value.b, value.a)):
            if _loads_own(own, store):
                return term
    return structural_map(value, (TensorLoad, lambda load: begin if _loads_own(load, store) else load))


def _loads_own(expression: Any, store: tirx.BufferStore) -> bool:
    return (
        isinstance(expression, TensorLoad)
        and expression.source.same_as(store.buffer)
        and bool(structural_equal(list(expression.indices), list(store.indices)))
    )


def _is_identity(value: Any, begin: Any) -> bool:
    """Is ``begin`` what changes no other operand of the operation ``value``? The least finite number stands
    for infinity.
    """
    if not isinstance(begin, tirx.FloatImm | tirx.IntImm):
        return False
    number = begin.value
    match value:
        case tirx.Add():
            return bool(number == 0)
        case tirx.Mul():
            return bool(number == 1)
        case tirx.Max():
            return bool(number <= _limits(begin).min)
        case tirx.Min():
            return bool(number >= _limits(begin).max)
    return False


def _limits(number: Any) -> Any:
    dtype = np.dtype(str(number.ty.dtype))
    return np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
