"""The exact choice of layouts: one signature per operator, at least total cost.

The model is an integer program. A binary variable per signature says whether its operator runs that
way; a variable per value and memory order says whether a transform into that order exists. It must
exist wherever a consumer reads an order that the producer does not write, and is shared by all
consumers. Layouts that put every element at the same address (for example NHWC and NCHW of a 1x1
image) count as one order, so passing between them is free. Solved by HiGHS through
``scipy.optimize.milp`` to proven optimality, within a time limit.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import coo_array

from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout
from relay_layout.layout_transform import equivalent_memory
from relay_layout.ops import Signature

TransformCost = Callable[[Value], float]
"""Microseconds of one layout transform of a value at run time; 0 where it is folded."""

TIE_BREAK_US = 1e-4
"""Charged for each transform beside its cost, so that of equal solutions the one with fewer wins."""


@dataclass(frozen=True)
class Solution:
    """The chosen signature of every node.

    ``status`` is "optimal", "time limit" (a solution with a gap) or "trivial" (nothing to choose);
    ``objective_us`` the estimated total, ``gap`` its relative distance from the proven bound.
    """

    signatures: Mapping[Node, Signature]
    status: str
    objective_us: float
    gap: float
    seconds: float


def solve(
    graph: Graph,
    signatures: Mapping[Node, Sequence[Signature]],
    transform_cost: TransformCost,
    outputs: Mapping[Value, Layout],
    *,
    time_limit: float = 30.0,
) -> Solution:
    """Choose one of each node's ``signatures``; ``outputs`` are the layouts that results must have."""
    start = time.perf_counter()
    program = _Program(graph, signatures, transform_cost, outputs)
    if not program.has_choice:
        chosen = {node: choices[0] for node, choices in signatures.items()}
        return Solution(chosen, "trivial", program.fixed_cost, 0.0, time.perf_counter() - start)
    result = program.minimise(time_limit)
    chosen = program.chosen(result.x)
    status = "optimal" if result.status == 0 else "time limit"
    gap = float(result.mip_gap or 0.0)
    return Solution(chosen, status, float(result.fun) + program.fixed_cost, gap, time.perf_counter() - start)


def same_memory(value: Value, left: Layout, right: Layout) -> bool:
    """Do both layouts put every element of ``value`` at the same address?"""
    if left == right:
        return True
    rank = max(len(left.primal), len(right.primal))
    return _same_memory(expanded(left, rank), expanded(right, rank), expanded_shape(value, rank))


@lru_cache(maxsize=1 << 16)
def _same_memory(left: Layout, right: Layout, shape: tuple[object, ...]) -> bool:
    return equivalent_memory(left, right, shape, Layout.generic(len(shape)))


def expanded(layout: Layout, rank: int) -> Layout:
    """The layout of the same memory seen with leading unit dimensions, as broadcasting sees it."""
    missing = rank - len(layout.primal)
    if missing <= 0:
        return layout
    letters = str(Layout.generic(rank))
    shifted = layout.relabel(dict(zip(letters, letters[missing:], strict=False))) if layout.primal else layout
    return Layout.parse(letters[:missing] + str(shifted))


def expanded_shape(value: Value, rank: int) -> tuple[object, ...]:
    shape = value.shape or ()
    return (1,) * (rank - len(shape)) + tuple(shape)


class _Program:
    """Variables, constraints and costs of the integer program."""

    def __init__(
        self,
        graph: Graph,
        signatures: Mapping[Node, Sequence[Signature]],
        transform_cost: TransformCost,
        outputs: Mapping[Value, Layout],
    ) -> None:
        self.signatures = signatures
        self.costs: list[float] = []
        self.integral: list[int] = []
        self.fixed_cost = 0.0
        self.choice: dict[Node, list[int]] = {}
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.entries: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.transforms: dict[tuple[Value, Layout], int] = {}
        for node in graph.nodes:
            self._add_node(node, signatures[node])
        for value in graph.values():
            self._add_value(value, transform_cost(value), outputs.get(value))

    @property
    def has_choice(self) -> bool:
        return any(len(variables) > 1 for variables in self.choice.values())

    def _variable(self, cost: float, integral: bool) -> int:
        self.costs.append(cost)
        self.integral.append(1 if integral else 0)
        return len(self.costs) - 1

    def _constraint(self, terms: Mapping[int, float], lower: float, upper: float) -> None:
        row = len(self.lower)
        for column, entry in terms.items():
            self.rows.append(row)
            self.columns.append(column)
            self.entries.append(entry)
        self.lower.append(lower)
        self.upper.append(upper)

    def _add_node(self, node: Node, choices: Sequence[Signature]) -> None:
        if len(choices) == 1:
            self.fixed_cost += choices[0].cost
            self.choice[node] = [-1]
            return
        variables = [self._variable(signature.cost, integral=True) for signature in choices]
        self.choice[node] = variables
        self._constraint(dict.fromkeys(variables, 1.0), 1.0, 1.0)

    def _add_value(self, value: Value, cost: float, output: Layout | None) -> None:
        """A transform of ``value`` into an order exists if some reader needs it and no writer has it."""
        if cost <= 0.0:
            return
        provided: list[tuple[Layout, int]] = [(value.identity, -1)]
        if value.producer is not None:
            place = value.producer.results.index(value)
            provided = [
                (signature.results[place], variable)
                for signature, variable in zip(
                    self.signatures[value.producer], self.choice[value.producer], strict=True
                )
            ]
        readers = [
            [
                (signature.operands[position], variable)
                for signature, variable in zip(self.signatures[node], self.choice[node], strict=True)
            ]
            for node, position in value.consumers
        ]
        if output is not None:
            readers.append([(output, -1)])
        orders: list[Layout] = []
        for reader in readers:
            for layout, _ in reader:
                if not any(same_memory(value, layout, order) for order in orders):
                    orders.append(layout)
        for order in orders:
            writers = [variable for layout, variable in provided if same_memory(value, layout, order)]
            if -1 in writers:
                continue
            self._add_order(value, order, cost, writers, readers)

    def _add_order(
        self,
        value: Value,
        order: Layout,
        cost: float,
        writers: list[int],
        readers: list[list[tuple[Layout, int]]],
    ) -> None:
        transform: int | None = None
        for reader in readers:
            wanting = [variable for layout, variable in reader if same_memory(value, layout, order)]
            if not wanting:
                continue
            if transform is None:
                transform = self._variable(cost + TIE_BREAK_US, integral=False)
                self.transforms[value, order] = transform
            # transform + writers >= wanting, where a fixed reader always wants it.
            terms = {transform: 1.0}
            for variable in writers:
                terms[variable] = terms.get(variable, 0.0) + 1.0
            fixed = 1.0 if -1 in wanting else 0.0
            if not fixed:
                for variable in wanting:
                    terms[variable] = terms.get(variable, 0.0) - 1.0
            self._constraint(terms, fixed, np.inf)

    def minimise(self, time_limit: float) -> OptimizeResult:
        count = len(self.costs)
        matrix = coo_array((self.entries, (self.rows, self.columns)), shape=(len(self.lower), count))
        result = milp(
            np.asarray(self.costs),
            integrality=np.asarray(self.integral),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix.tocsr(), np.asarray(self.lower), np.asarray(self.upper)),
            options={"time_limit": time_limit, "mip_rel_gap": 0.0},
        )
        if result.x is None:
            result.x = self._unchanged()
            result.fun = float(np.dot(self.costs, result.x))
            result.mip_gap = 1.0
        return result

    def _unchanged(self) -> np.ndarray:
        """A feasible point to fall back on: every node's first signature, every transform made."""
        point = np.zeros(len(self.costs))
        for variables in self.choice.values():
            if variables[0] >= 0:
                point[variables[0]] = 1.0
        for variable in self.transforms.values():
            point[variable] = 1.0
        return point

    def chosen(self, point: np.ndarray) -> dict[Node, Signature]:
        chosen = {}
        for node, variables in self.choice.items():
            place = 0 if len(variables) == 1 else int(np.argmax([point[variable] for variable in variables]))
            chosen[node] = self.signatures[node][place]
        return chosen
