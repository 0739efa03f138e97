"""The exact choice of layouts: one signature per operator, at the lowest total cost.

Every operator costs what its signature says. Every value costs one transform for each memory order in which
it is read but not written, shared by all readers. Layouts that put every element at the same address (for
example NHWC and NCHW of a 1x1 image) count as one order, so going from one to the other is free. The problem
is reduced without losing its optimum (:mod:`relay_layout.choice.reduction`), and the rest is solved as an
integer program to proven optimality (:mod:`relay_layout.choice.program`) within a time limit. When that runs
out, the better of the program's best solution and a heuristic one (:mod:`relay_layout.choice.heuristic`) is
taken.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from relay_layout.choice.heuristic import approximate
from relay_layout.choice.problem import (
    OperatorCost,
    Problem,
    TransformCost,
    lower_bound,
    problem_of,
    total_cost,
)
from relay_layout.choice.program import minimise
from relay_layout.choice.reduction import reduce_problem
from relay_layout.choice.views import with_fewest_views
from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import Signature

TIE_BREAK_US = 1e-4
"""Added to the cost of each transform, so that among equal solutions the one with fewest transforms wins."""


@dataclass(frozen=True)
class Solution:
    """The chosen signature of every node.

    ``status`` is "optimal"; "trivial" if there was nothing to choose; "time limit" if the integer program
    stopped without a proof; or "heuristic" if it had not even found a solution by then. ``objective`` is the
    sum of the costs that the solver was given. ``gap`` bounds the share of it that a better solution could
    save.
    """

    signatures: Mapping[Node, Signature]
    status: str
    objective: float
    gap: float
    seconds: float

    @property
    def is_proven(self) -> bool:
        """Whether no other choice is better."""
        return self.status in _PROVEN


_PROVEN = "trivial", "optimal"
_STATUSES = *_PROVEN, "time limit", "heuristic"


def status_of_all(statuses: Iterable[str]) -> str:
    """The status of solutions taken together: that of the one about which least is known."""
    return max(statuses, key=_STATUSES.index)


def solve(
    graph: Graph,
    signatures: Mapping[Node, Sequence[Signature]],
    transform_cost: TransformCost,
    outputs: Mapping[Value, Layout],
    *,
    operator_cost: OperatorCost,
    time_limit: float = 30.0,
) -> Solution:
    """Choose one of the ``signatures`` of each node; ``outputs`` are the layouts that results must have.

    ``operator_cost`` is the cost of an operator in a signature. ``time_limit`` is for the integer program, in
    seconds.
    """
    start = time.perf_counter()

    def charged(value: Value, source: Layout, target: Layout) -> float:
        cost = transform_cost(value, source, target)
        return cost + TIE_BREAK_US if cost > 0.0 else 0.0

    problem = problem_of(graph, signatures, charged, outputs, operator_cost)
    choice, status, bound = _choose(problem, start + time_limit)
    chosen = {
        node: signatures[node][_pick(problem, place, choice[place])] for place, node in enumerate(graph.nodes)
    }
    objective = total_cost(problem, choice)
    gap = max(0.0, objective - bound) / objective if objective > 0.0 and status != "optimal" else 0.0
    return Solution(
        with_fewest_views(graph, signatures, chosen), status, objective, gap, time.perf_counter() - start
    )


def _choose(problem: Problem, deadline: float) -> tuple[list[int], str, float]:
    """A choice for each group, its status, and a lower bound of the cost of any choice."""
    if all(len(group.costs) == 1 for group in problem.groups):
        choice = [0] * len(problem.groups)
        return choice, "trivial", total_cost(problem, choice)
    reduced = reduce_problem(problem)
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
