"""A problem as an integer program, solved by HiGHS through ``scipy.optimize.milp``.

A binary variable per group and choice says whether it is taken; a variable per tensor and order says whether
a transform into that order exists, one for each cost that it may have, by the order that it starts from. It
must exist wherever a choice reads an order that no choice writes, and is shared by all readers, so it need
not be an integer: its bounds are integers once the choices are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from relay_layout.choice.problem import Problem
from relay_layout.choice.state import orders_in, read_in, written_in


@dataclass(frozen=True)
class Minimum:
    """What HiGHS found within its time: ``choice`` by group, None if nothing.

    ``bound`` is what every solution costs at least, the problem's constant included; None if it is unknown.
    """

    choice: list[int] | None
    is_optimal: bool
    bound: float | None


def minimise(problem: Problem, time_limit: float) -> Minimum:
    """The choice of least cost, or the best that is found in ``time_limit`` seconds."""
    return _Program(problem).minimise(time_limit)


class _Program:
    """Variables, constraints and costs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.costs: list[float] = []
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.entries: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.constant = problem.constant
        self.first: list[int] = []
        for group in problem.groups:
            self.first.append(len(self.costs))
            self.costs += group.costs
            self._constraint({self.first[-1] + place: 1.0 for place in range(len(group.costs))}, 1.0, 1.0)
        self.choices = len(self.costs)
        for tensor in range(len(problem.tensor_costs)):
            self._add_tensor(tensor)

    def _constraint(self, terms: Mapping[int, float], lower: float, upper: float) -> None:
        row = len(self.lower)
        for column, entry in terms.items():
            self.rows.append(row)
            self.columns.append(column)
            self.entries.append(entry)
        self.lower.append(lower)
        self.upper.append(upper)

    def _add_tensor(self, tensor: int) -> None:
        problem = self.problem
        fixed = problem.fixed[tensor]
        writers: dict[int, list[int]] = {}
        readers: list[dict[int, list[int]]] = []
        for place in problem.touching[tensor]:
            group = problem.groups[place]
            position = group.tensors.index(tensor)
            reads: dict[int, list[int]] = {}
            for choice, states in enumerate(group.states):
                variable, state = self.first[place] + choice, states[position]
                written = written_in(state)
                if written >= 0:
                    writers.setdefault(written, []).append(variable)
                for order in orders_in(read_in(state)):
                    if order != written:
                        reads.setdefault(order, []).append(variable)
            readers.append(reads)
        always = set(orders_in(read_in(fixed)))
        for order in sorted(always.union(*readers)):
            if order == written_in(fixed):
                continue
            sources = self._sources(tensor, order, writers)
            if order in always and order not in writers and len(sources) == 1:
                self.constant += next(iter(sources))
                continue
            transforms = self._transforms(sources)
            # transforms + writers >= readers, where a fixed reader always wants it.
            there = {**dict.fromkeys(transforms, 1.0), **dict.fromkeys(writers.get(order, ()), 1.0)}
            if order in always:
                self._constraint(there, 1.0, np.inf)
                continue
            for reads in readers:
                if order in reads:
                    terms = dict(there)
                    for variable in reads[order]:
                        terms[variable] = terms.get(variable, 0.0) - 1.0
                    self._constraint(terms, 0.0, np.inf)

    def _sources(self, tensor: int, order: int, writers: Mapping[int, list[int]]) -> dict[float, list[int]]:
        """The costs that a transform into ``order`` may have, and the choices with which it has each."""
        written, costs = written_in(self.problem.fixed[tensor]), self.problem.tensor_costs[tensor]
        if written >= 0:
            return {costs.single(written, order): []}
        found: dict[float, list[int]] = {}
        for source, variables in writers.items():
            if source != order:
                found.setdefault(costs.single(source, order), []).extend(variables)
        return found

    def _transforms(self, sources: Mapping[float, list[int]]) -> list[int]:
        """New variables, one for each cost; where there are several, each asks for its writers."""
        variables = range(len(self.costs), len(self.costs) + len(sources))
        self.costs += sources
        if len(sources) > 1:
            for variable, writers in zip(variables, sources.values(), strict=True):
                self._constraint({variable: -1.0, **dict.fromkeys(writers, 1.0)}, 0.0, np.inf)
        return list(variables)

    def minimise(self, time_limit: float) -> Minimum:
        # Slow to import, and not needed where nothing of a problem is left, as of many networks.
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        count = len(self.costs)
        matrix = coo_array((self.entries, (self.rows, self.columns)), shape=(len(self.lower), count))
        integrality = np.zeros(count)
        integrality[: self.choices] = 1
        result = milp(
            np.asarray(self.costs),
            integrality=integrality,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix.tocsr(), np.asarray(self.lower), np.asarray(self.upper)),
            options={"time_limit": time_limit, "mip_rel_gap": 0.0},
        )
        choice = None
        if result.x is not None:
            choice = [
                int(np.argmax(result.x[first : first + len(group.costs)]))
                for first, group in zip(self.first, self.problem.groups, strict=True)
            ]
        bound = result.mip_dual_bound
        known = bound is not None and np.isfinite(bound)
        return Minimum(choice, result.status == 0, self.constant + float(bound) if known else None)
