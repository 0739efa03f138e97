"""Reads what an explanation or a report says off a plan.

One reader for both, so that the terminal and the page say the same of an operator: its layouts, what else
there was and what that costs, and what kept it from another layout.
"""

import time
from collections.abc import Sequence
from math import inf

from relay_layout.choice.plan import LayoutPlan
from relay_layout.choice.solver import Solution
from relay_layout.explanation.facts import Alternative, Obstacle, OperatorFact, TransformFact
from relay_layout.explanation.readable import Letters
from relay_layout.explanation.reasons import (
    COSTS_MORE,
    UNREACHED,
    candidates_around,
    cause,
    chooses,
    converted_around,
    is_anchor,
    is_unconverted,
    kept_reason,
    obstacle,
    partial_reason,
)
from relay_layout.explanation.transforms import Transform, transforms_of
from relay_layout.graph import Node
from relay_layout.ir import size_in_bytes
from relay_layout.ops import Signature

SECONDS_FOR_ALTERNATIVES = 3.0
"""After this long no further alternative of a node is solved for."""


class PlanReader:
    """Reads facts off a plan."""

    def __init__(self, plan: LayoutPlan) -> None:
        self.plan = plan
        self.letters = Letters(plan.graph)
        self.transforms = transforms_of(plan, plan.solution.signatures)
        self.objective_us = round(self._total_us(plan.solution, self.transforms), 3)
        self._read_by: dict[Node, list[Transform]] = {}
        for transform in self.transforms:
            for reader in transform.readers:
                self._read_by.setdefault(reader, []).append(transform)

    def _total_us(self, solution: Solution, transforms: Sequence[Transform]) -> float:
        return self.plan.microseconds(solution.signatures, (each.price for each in transforms))

    def takes_part(self, node: Node) -> bool:
        """Whether any layout but its own reaches the node, or it is a convolution, skipped or not."""
        plan = self.plan
        return (
            len(plan.signatures[node]) > 1
            or not is_unconverted(plan, node)
            or bool(converted_around(plan, node))
            or node in plan.skipped
            or is_anchor(plan, node)
        )

    def kind(self, node: Node) -> str:
        """How the node came by its layouts; see :class:`OperatorFact`."""
        if chooses(self.plan, node):
            return "chosen"
        return "keeps its own" if is_unconverted(self.plan, node) else "follows"

    def operator(self, place: int) -> OperatorFact:
        """The operator at ``place`` in the function's order."""
        plan, node = self.plan, self.plan.graph.nodes[place]
        signature = plan.solution.signatures[node]
        operands, results = self.letters.signature(node, signature)
        reason = kept_reason(plan, node, self.letters)
        convolution = node in plan.skipped or is_anchor(plan, node)
        if not reason and is_unconverted(plan, node) and convolution:
            reason = cause(plan, node, self.letters)
        reason = reason or partial_reason(plan, node, self.letters)
        return OperatorFact(
            place,
            node.name,
            node.operator,
            self.kind(node),
            operands,
            results,
            round(signature.cost, 3),
            tuple(map(self.fact, self._read_by.get(node, ()))),
            reason,
        )

    def kept_because(self, node: Node, reason: str, choices: int) -> str:
        """``reason``; or, where there is none and the node runs as it was, why that is so.

        ``choices`` is how many ways to run the node had.
        """
        if reason or not is_unconverted(self.plan, node):
            return reason
        return cause(self.plan, node, self.letters) or (UNREACHED if choices == 1 else COSTS_MORE)

    def fact(self, transform: Transform) -> TransformFact:
        """A transform as plain values."""
        value = transform.value
        readers = [reader.name for reader in transform.readers] + ["output"] * transform.is_output
        return TransformFact(
            value.name,
            self.letters.layout(value, transform.source),
            self.letters.layout(value, transform.target),
            size_in_bytes(value.shape or (), value.dtype),
            round(transform.price.microseconds, 3),
            transform.price.source,
            tuple(readers),
        )

    def alternatives(self, node: Node) -> list[Alternative]:
        """The chosen signature first, then the others, cheapest for the whole function first."""
        chosen = self.plan.solution.signatures[node]
        start = time.perf_counter()
        found = [self._alternative(node, chosen, self.plan.solution)]
        others: list[tuple[float, Alternative]] = []
        for signature in self.plan.signatures[node]:
            if signature is not chosen:
                left = SECONDS_FOR_ALTERNATIVES - (time.perf_counter() - start)
                solution = self._forced(node, signature, left) if left > 0 else None
                objective = inf if solution is None else solution.objective
                others.append((objective, self._alternative(node, signature, solution)))
        return found + [each for _, each in sorted(others, key=lambda pair: pair[0])]

    def _forced(self, node: Node, signature: Signature, seconds: float) -> Solution | None:
        """The best choice in which ``node`` runs that way; None where none is proven in time."""
        plan = self.plan
        choices = {**plan.signatures, node: [signature]}
        solution = plan.best_of(choices, seconds)
        return solution if solution.is_proven else None

    def _alternative(self, node: Node, signature: Signature, solution: Solution | None) -> Alternative:
        plan, chosen = self.plan, self.plan.solution.signatures
        more_us, more_transforms = None, None
        if solution is not None:
            transforms = transforms_of(plan, solution.signatures)
            more_us = round(self._total_us(solution, transforms) - self.objective_us, 3) + 0.0
            more_transforms = len(transforms) - len(self.transforms)
        operands, results = self.letters.signature(node, signature)
        return Alternative(
            operands,
            results,
            round(signature.cost, 3),
            signature is chosen[node],
            more_us,
            more_transforms,
        )

    def obstacles(self, node: Node) -> list[Obstacle]:
        """Layouts that neighbours could write or read and the node cannot have, and why."""
        values = [*node.operands, *node.results]
        found = []
        for place, layout in candidates_around(self.plan, node):
            reason = obstacle(self.plan, node, place, layout, self.letters)
            if reason:
                value = values[place]
                found.append(Obstacle(value.name, self.letters.layout(value, layout), reason))
        return found
