"""Clamped loops: a last chunk of fewer iterations without a condition in each of them.

Splitting a loop by a factor that does not divide its extent leaves a predicate on the blocks inside, which is
evaluated for every vector. Instead the extent of the inner loop becomes the minimum of the factor and of what
is left of the axis.
"""

from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_equal, structural_map, structural_walk

from topi_ext.ir import conjunction, conjuncts, nodes_of, substitute, unmarked, uses, with_loops

_LARGEST = 1 << 31
"""The bound on symbolic extents of tensors that the analysis assumes."""

CLAMPED = "topi_ext.clamped"
"""Loop annotation: the loop is to end where its axis does."""


def mark_clamped(sch: Schedule, loop: Any) -> None:
    """Mark ``loop``, the inner loop of a split whose factor does not divide the extent."""
    sch.annotate(loop, CLAMPED, 1)


def apply_clamping(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Clamp every marked loop of a scheduled function; a function without marks comes back unchanged.

    RuntimeError where the blocks in a marked loop end at different iterations.
    """
    analyzer = tvm.sym.Analyzer()
    loops = nodes_of(func.body, tirx.For)
    if not any(CLAMPED in loop.annotations for loop in loops):
        return func
    counters = [loop.loop_var for loop in loops]
    for variable in {one for loop in loops for one in tirx.analysis.undefined_vars(loop.extent)}:
        # The extent of a tensor: at least 1 where a loop over it runs.
        if not any(variable.same_as(counter) for counter in counters):
            one, largest = (tirx.IntImm(str(variable.ty), bound) for bound in (1, _LARGEST))
            analyzer.bind(variable, tvm.ir.Range(one, largest))
    for loop in loops:
        analyzer.bind(loop.loop_var, tvm.ir.Range(loop.min, loop.min + loop.extent))

    def on_loop(loop: tirx.For) -> tirx.For:
        if CLAMPED not in loop.annotations:
            return loop
        inner = [each.loop_var for each in nodes_of(loop.body, tirx.For)]
        counts: list[Any] = []
        dropped: list[Any] = []
        for condition in _conditions(loop):
            count = _trip_count(analyzer, loop, condition, inner)
            if count is None:
                continue
            counts.append(count)
            if not any(uses(condition, variable) for variable in inner):
                dropped.append(condition)
        if not counts:
            return unmarked(loop, CLAMPED, loop.body)
        extent = analyzer.simplify(tirx.min(loop.extent, counts[0]))
        if not all(analyzer.can_prove_equal(counts[0], other) for other in counts[1:]):
            raise RuntimeError(f"the blocks in {loop.loop_var} end at different rows")
        return unmarked(loop, CLAMPED, _without(loop.body, dropped), extent)

    return with_loops(func, on_loop)


def _conditions(loop: tirx.For) -> list[Any]:
    """The conjuncts of the predicates of the blocks in ``loop`` that use its variable."""
    found: list[Any] = []
    structural_walk(loop.body, (SBlockRealize, lambda realize: found.extend(conjuncts(realize.predicate))))
    return [condition for condition in found if uses(condition, loop.loop_var)]


def _trip_count(analyzer: Any, loop: tirx.For, condition: Any, inner: list[tirx.Var]) -> Any:
    """The iterations for which ``condition`` holds while all ``inner`` loops are at 0; None if it always
    holds.
    """
    if not isinstance(condition, tirx.LT) or analyzer.can_prove(condition):
        return None
    first = {variable: tirx.IntImm(str(variable.ty), 0) for variable in inner}
    place = substitute(condition.a, first)
    variable = loop.loop_var
    start, second = (
        substitute(place, {variable: tirx.IntImm(str(variable.ty), number)}) for number in (0, 1)
    )
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
