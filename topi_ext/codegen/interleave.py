"""Stores of every second element, or every third, made whole vectors of."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.extents import fixed
from topi_ext.ir import holds, loads_of, sequence


@function_pass
def interleave_stores(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Vectors that are stored with gaps, one right after those that fill the gaps, are shuffled into one."""
    return replaced(func, (tirx.SeqStmt, _joined))


def _joined(whole: tirx.SeqStmt) -> Any:
    left, statements = list(whole.seq), []
    while left:
        count = _gaps(left[0])
        run, left = left[:count], left[count:]
        if count > 1 and _fill(run):
            statements.append(_one_store(run))
        else:
            left = [*run[1:], *left]
            statements.append(run[0])
    if len(statements) == len(whole.seq):
        return whole
    return sequence(statements)


def _gaps(statement: Any) -> int:
    """The distance of the elements that a statement stores; 1 where it does nothing of the kind."""
    ramp = _ramp(statement)
    return int(ramp.stride) if ramp is not None else 1


def _ramp(statement: Any) -> tirx.Ramp | None:
    if not isinstance(statement, tirx.BufferStore) or len(statement.indices) != 1:
        return None
    (index,) = statement.indices
    known = isinstance(index, tirx.Ramp) and all(
        (fixed(part) or 0) > 1 for part in (index.stride, index.lanes)
    )
    return index if known else None


def _fill(stores: Sequence[Any]) -> bool:
    """Whether stores fill each other's gaps, and none reads what another has written."""
    ramps = [_ramp(store) for store in stores]
    first = ramps[0]
    if first is None or len(stores) != int(first.stride):
        return False
    analyzer = tvm.sym.Analyzer()
    for place, (store, ramp) in enumerate(zip(stores, ramps, strict=True)):
        if ramp is None or (int(ramp.stride), int(ramp.lanes)) != (int(first.stride), int(first.lanes)):
            return False
        if not store.buffer.same_as(stores[0].buffer) or getattr(store, "predicate", None) is not None:
            return False
        if not analyzer.can_prove_equal(ramp.base, first.base + place):
            return False
        if holds([load.source for load in loads_of(store.value)], store.buffer):
            return False
    return True


def _one_store(stores: Sequence[Any]) -> tirx.BufferStore:
    (ramp,) = stores[0].indices
    lanes = int(ramp.lanes)
    order = [place * lanes + lane for lane in range(lanes) for place in range(len(stores))]
    value = tirx.Shuffle([store.value for store in stores], order)
    return tirx.BufferStore(stores[0].buffer, value, [tirx.Ramp(ramp.base, 1, len(order))])
