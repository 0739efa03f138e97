"""Overlapping tiles: remainders without remainder code.

A tile that does not divide its axis leaves a predicate in the innermost loop, which defeats
unrolling and register allocation. Instead the last tile is moved back until it ends at the edge:
the few elements that two tiles share are computed twice, with the same result, and every tile has
the same constant shape. The blocks below must therefore be idempotent: they may be executed twice
for one element as long as both executions write the same value, which holds for a reduction that
initialises its own accumulator inside the tile.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import Schedule
from tvm_ffi import structural_equal, structural_map

from topi_ext.ir import conjunction, conjuncts, nodes_of, substitute, unmarked, uses, with_loops

_LONGEST_TILE = 1 << 30
"""A bound from which on the extent of a tile counts as unknown."""

TILE_LOOP = "topi_ext.overlap_below"
"""Loop annotation: tiles that start here and overrun their axis are moved back to its edge."""


PADDED_LANES = "topi_ext.padded_lanes"
"""Block annotation: the lanes of the vectors along its last axis, the last of which is partial."""


def overlap_tail(sch: Schedule, loop: Any) -> None:
    """Mark ``loop``: everything below it is one tile, and the last tile is to overlap the one before."""
    sch.annotate(loop, TILE_LOOP, 1)


def apply_overlap(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite every marked loop of a scheduled function; unmarked functions come back unchanged."""
    analyzer = tvm.sym.Analyzer()
    loops = nodes_of(func.body, tirx.For)
    for loop in loops:
        analyzer.bind(loop.loop_var, tvm.ir.Range(loop.min, loop.min + loop.extent))

    def on_loop(loop: tirx.For) -> tirx.For:
        if TILE_LOOP not in loop.annotations:
            return loop
        tile = nodes_of(loop.body, tirx.For)
        body = structural_map(
            loop.body, (tvm.s_tir.SBlockRealize, lambda realize: _move_back(analyzer, realize, tile))
        )
        return unmarked(loop, TILE_LOOP, body)

    with ExitStack() as known:
        for bound in _bounds_of_quotients(analyzer, func, loops):
            known.enter_context(analyzer.constraint_scope(bound))
        return with_loops(func, on_loop)


def _bounds_of_quotients(analyzer: Any, func: tirx.PrimFunc, loops: list[tirx.For]) -> Iterator[Any]:
    """The outer indices of fused loops are below their extents, also where the inner extent is symbolic.

    TVM cannot prove that. An index that seems to overrun its axis would be moved back in the blocks behind
    a sum only, and the sum then kept for all channels instead of one tile.
    """
    extents = {loop.loop_var: loop.extent for loop in loops}
    for quotient in nodes_of(func.body, tirx.FloorDiv):
        extent = extents.get(quotient.a)
        outer = None if extent is None else analyzer.simplify(tirx.floordiv(extent, quotient.b))
        if isinstance(outer, tirx.IntImm) and analyzer.can_prove_equal(extent, outer * quotient.b):
            yield quotient < outer


def _move_back(analyzer: Any, realize: Any, tile: list[tirx.For]) -> Any:
    """The block with every axis that overruns its edge moved back, without the predicates on it."""
    values = list(realize.iter_values)
    conditions = [
        _Condition(analyzer, condition, tile) for condition in _merged(analyzer, conjuncts(realize.predicate))
    ]
    lanes = int(realize.block.annotations.get(PADDED_LANES, 1))
    kept = []
    for condition in conditions:
        if not condition.is_read:
            raise RuntimeError(f"{condition.expression} says something of a tile that is not understood")
        if not condition.bounds_tile:
            kept.append(condition.expression)
            continue
        places = condition.places(values)
        if not places:
            # Moving one block of the tile and not another would pair the wrong elements.
            raise RuntimeError(
                f"no axis of block '{realize.block.name_hint}' is bounded by {condition.expression}"
            )
        vector = lanes if len(values) - 1 in places else 1
        moved = condition.moved(conditions, vector)
        if vector > 1:
            kept.append(moved < condition.expression.b)
        for place, rest in places.items():
            values[place] = moved if rest is None else rest + moved
    if all(not condition.bounds_tile for condition in conditions):
        return realize
    return tvm.s_tir.SBlockRealize(values, conjunction(kept), realize.block)


def _merged(analyzer: Any, conditions: list[Any]) -> list[Any]:
    """The conditions with one bound for each number that they bound from above."""
    found: list[Any] = []
    for condition in conditions:
        same = [
            place
            for place, other in enumerate(found)
            if isinstance(condition, tirx.LT)
            and isinstance(other, tirx.LT)
            and _same(analyzer, condition.a, other.a)
        ]
        if same:
            both = tirx.min(found[same[0]].b, condition.b)
            found[same[0]] = tirx.LT(condition.a, analyzer.simplify(both))
        else:
            found.append(condition)
    return found


class _Condition:
    """A conjunct of a predicate, read as ``start + offset < edge``: only ``offset`` varies within the tile.

    ``bounds_tile`` is false where it says nothing of the tile's place: it holds for the tile as a whole,
    or it trims the tile's own loops.
    """

    def __init__(self, analyzer: Any, expression: Any, tile: list[tirx.For]) -> None:
        self.expression = expression
        self.offset: Any = None
        self.bounds_tile = False
        self._analyzer = analyzer
        self._variables: list[tirx.Var] = nodes_of(expression, tirx.Var)
        self.is_read = isinstance(expression, tirx.LT) or not any(
            uses(expression, loop.loop_var) for loop in tile
        )
        if not isinstance(expression, tirx.LT):
            return
        within = [loop for loop in tile if uses(expression.a, loop.loop_var)]
        if not within:
            return
        first = {loop.loop_var: tirx.IntImm(str(loop.loop_var.ty), 0) for loop in within}
        self._start = analyzer.simplify(substitute(expression.a, first))
        self.offset = analyzer.simplify(expression.a - self._start)
        self.bounds_tile = not isinstance(self._start, tirx.IntImm)

    def places(self, values: list[Any]) -> dict[int, Any]:
        """The positions of the block axes that the condition bounds, with the offset that each adds to it,
        if any.
        """
        found: dict[int, Any] = {}
        for place, value in enumerate(values):
            if _same(self._analyzer, value, self.expression.a):
                found[place] = None
        if found:
            return found
        for place, value in enumerate(values):
            rest = self._analyzer.simplify(value - self.expression.a)
            if not any(uses(rest, variable) for variable in self._variables):
                found[place] = rest
        return found

    def moved(self, conditions: list["_Condition"], lanes: int) -> Any:
        """``min(start, edge - length) + offset``: the tile, ending at the edge at the latest.

        The edge is that of whole vectors of ``lanes``, at which the tile starts.
        """
        analyzer = self._analyzer
        bound = analyzer.const_int_bound(self.offset)
        longest = [bound.max_value + 1] + [
            int(other.expression.b)
            for other in conditions
            if other.offset is not None
            and not other.bounds_tile
            and isinstance(other.expression.b, tirx.IntImm)
            and _same(analyzer, other.expression.a, self.offset)
        ]
        length = min(longest)
        if bound.min_value != 0 or length > _LONGEST_TILE:
            raise RuntimeError(f"the tile in {self.expression} has no constant length")
        if lanes == 1:
            return tirx.min(self._start, analyzer.simplify(self.expression.b - length)) + self.offset
        last = analyzer.simplify((self.expression.b + lanes - 1) // lanes - length // lanes)
        first = analyzer.simplify(tirx.floordiv(self._start, lanes))
        return analyzer.simplify(tirx.min(first, last)) * lanes + self.offset


def _same(analyzer: Any, left: Any, right: Any) -> bool:
    return structural_equal(left, right) or (
        structural_equal(left.ty, right.ty) and analyzer.can_prove_equal(left, right)
    )
