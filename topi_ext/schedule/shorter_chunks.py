"""Chunks of rows of which the last one is shorter, without a condition on each row.

A condition in the innermost loops would be asked for each vector. Instead the loop over the rows of a chunk
takes as many turns as there are rows left.
"""

from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_equal, structural_map, structural_walk

from topi_ext.ir import conjunction, conjuncts, nodes_of, substitute, unmarked, uses

_LARGEST = 1 << 31

WITHIN = "topi_ext.within"
"""Loop annotation: it ends where its axis does."""


def stay_within(sch: Schedule, loop: Any) -> None:
    """Mark ``loop``, the inner one of a split that leaves a condition on it."""
    sch.annotate(loop, WITHIN, 1)


def apply_within(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite every marked loop of a scheduled function; unmarked functions come back unchanged."""
    analyzer = tvm.sym.Analyzer()
    loops = nodes_of(func.body, tirx.For)
    if not any(WITHIN in loop.annotations for loop in loops):
        return func
    counters = [loop.loop_var for loop in loops]
    for variable in {one for loop in loops for one in tirx.analysis.undefined_vars(loop.extent)}:
        # An extent of a tensor, which is not empty where a loop runs.
        if not any(variable.same_as(counter) for counter in counters):
            one, largest = (tirx.IntImm(str(variable.ty), bound) for bound in (1, _LARGEST))
            analyzer.bind(variable, tvm.ir.Range(one, largest))
    for loop in loops:
        analyzer.bind(loop.loop_var, tvm.ir.Range(loop.min, loop.min + loop.extent))

    def on_loop(loop: tirx.For) -> tirx.For:
        if WITHIN not in loop.annotations:
            return loop
        inner = [each.loop_var for each in nodes_of(loop.body, tirx.For)]
        turns: list[Any] = []
        dropped: list[Any] = []
        for condition in _conditions(loop):
            left = _turns(analyzer, loop, condition, inner)
            if left is None:
                continue
            turns.append(left)
            if not any(uses(condition, variable) for variable in inner):
                dropped.append(condition)
        if not turns:
            return unmarked(loop, WITHIN, loop.body)
        extent = analyzer.simplify(tirx.min(loop.extent, turns[0]))
        if not all(analyzer.can_prove_equal(turns[0], other) for other in turns[1:]):
            raise RuntimeError(f"the blocks in {loop.loop_var} end at different rows")
        return unmarked(loop, WITHIN, _without(loop.body, dropped), extent)

    return func.with_body(structural_map(func.body, (tirx.For, on_loop)))


def _conditions(loop: tirx.For) -> list[Any]:
    """Those of the blocks in ``loop`` on its variable."""
    found: list[Any] = []
    structural_walk(loop.body, (SBlockRealize, lambda realize: found.extend(conjuncts(realize.predicate))))
    return [condition for condition in found if uses(condition, loop.loop_var)]


def _turns(analyzer: Any, loop: tirx.For, condition: Any, inner: list[tirx.Var]) -> Any:
    """For how many turns ``condition`` holds at the first turn of the ``inner`` loops; None if for all."""
    if not isinstance(condition, tirx.LT) or analyzer.can_prove(condition):
        return None
    first = {variable: tirx.IntImm(str(variable.ty), 0) for variable in inner}
    place = substitute(condition.a, first)
    variable = loop.loop_var
    start, second = (substitute(place, {variable: tirx.IntImm(str(variable.ty), turn)}) for turn in (0, 1))
    step = analyzer.simplify(second - start)
    if not isinstance(step, tirx.IntImm) or int(step) < 1:
        raise RuntimeError(f"{condition} does not end the loop over {variable}")
    return analyzer.simplify(tirx.floordiv(condition.b - start + (int(step) - 1), step))


def _without(body: Any, dropped: list[Any]) -> Any:
    def on_realize(realize: SBlockRealize) -> SBlockRealize:
        conditions = conjuncts(realize.predicate)
        kept = [each for each in conditions if not any(structural_equal(each, one) for one in dropped)]
        if len(kept) == len(conditions):
            return realize
        return SBlockRealize(realize.iter_values, conjunction(kept), realize.block)

    return structural_map(body, (SBlockRealize, on_realize))


__all__ = ["apply_within", "stay_within"]
