"""The exact choice of layouts: one signature per operator, at least total cost.

Every operator costs what its signature says; every value costs one transform, from the memory order in which
it is written, for each one in which it is read, shared by all readers. Layouts that put every element at the
same address (for example NHWC and NCHW of a 1x1 image) count as one order, so passing between them is free.
The problem is reduced without losing its optimum (:mod:`relay_layout.choice.reduction`), and what is left is
solved as an integer program to proven optimality (:mod:`relay_layout.choice.program`), within a time limit;
past that, the better of its best solution and a heuristic one (:mod:`relay_layout.choice.heuristic`) counts.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from relay_layout.choice.heuristic import approximate
from relay_layout.choice.problem import OperatorCost, Problem, lower_bound, own_cost, problem_of, total_cost
from relay_layout.choice.program import minimise
from relay_layout.choice.reduction import Reduced, reduce_problem
from relay_layout.choice.views import with_fewest_views
from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import Signature

TransformCost = Callable[[Value, Layout, Layout], float]
"""Microseconds of the transform of a value from one layout to another at run time; 0 where it is folded."""

TIE_BREAK_US = 1e-4
"""Charged for each transform beside its cost, so that of equal solutions the one with fewer wins."""


@dataclass(frozen=True)
class Solution:
    """The chosen signature of every node.

    ``status`` is "optimal"; "trivial" where there was nothing to choose; "time limit" where the integer
    program stopped without proof; or "heuristic" where it had not even a solution by then. ``objective``
    is the sum of the costs that the solver was given, ``gap`` the share of it by which a better solution
    could be cheaper at most.
    """

    signatures: Mapping[Node, Signature]
    status: str
    objective: float
    gap: float
    seconds: float


def solve(
    graph: Graph,
    signatures: Mapping[Node, Sequence[Signature]],
    transform_cost: TransformCost,
    outputs: Mapping[Value, Layout],
    *,
    operator_cost: OperatorCost = own_cost,
    time_limit: float = 30.0,
    reduce: bool = True,
) -> Solution:
    """Choose one of each node's ``signatures``; ``outputs`` are the layouts that results must have.

    ``operator_cost`` is what an operator counts, its signature's cost if left out.
    ``time_limit`` is in seconds, for the integer program. Without ``reduce`` it has the problem as it is.
    """
    start = time.perf_counter()

    def charged(value: Value, source: Layout, target: Layout) -> float:
        cost = transform_cost(value, source, target)
        return cost + TIE_BREAK_US if cost > 0.0 else 0.0

    problem = problem_of(graph, signatures, charged, outputs, operator_cost)
    choice, status, bound = _choose(problem, start + time_limit, reduce)
    chosen = {
        node: signatures[node][_pick(problem, place, choice[place])] for place, node in enumerate(graph.nodes)
    }
    objective = total_cost(problem, choice)
    gap = max(0.0, objective - bound) / objective if objective > 0.0 and status != "optimal" else 0.0
    return Solution(
        with_fewest_views(graph, signatures, chosen), status, objective, gap, time.perf_counter() - start
    )


def _choose(problem: Problem, deadline: float, reduce: bool) -> tuple[list[int], str, float]:
    """A choice for each group, how good it is, and what every choice costs at least."""
    if all(len(group.costs) == 1 for group in problem.groups):
        choice = [0] * len(problem.groups)
        return choice, "trivial", total_cost(problem, choice)
    reduced = reduce_problem(problem) if reduce else Reduced(problem, ())
    rest = reduced.problem
    if not rest.groups:
        choice = problem.choice_of(reduced.places(()))
        return choice, "optimal", rest.constant
    found = minimise(rest, max(0.0, deadline - time.perf_counter()))
    bound = lower_bound(rest) if found.bound is None else max(found.bound, lower_bound(rest))
    exact = None if found.choice is None else problem.choice_of(reduced.places(found.choice))
    if exact is not None and found.is_optimal:
        return exact, "optimal", bound
    rough = approximate(problem, reduced)
    if exact is None:
        return rough, "heuristic", bound
    return min(exact, rough, key=lambda choice: total_cost(problem, choice)), "time limit", bound


def _pick(problem: Problem, place: int, choice: int) -> int:
    pick = problem.groups[place].picks[choice]
    assert isinstance(pick, int)
    return pick


__all__ = ["TIE_BREAK_US", "Solution", "TransformCost", "solve"]
