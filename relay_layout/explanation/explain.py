"""``relay_layout.explain``: what was chosen for a model's operators, and what else there was."""

import difflib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from relay_layout.border import with_border_layouts
from relay_layout.canonicalize import canonicalize
from relay_layout.errors import InputError
from relay_layout.explanation import text
from relay_layout.explanation.facts import (
    Alternative,
    Explanation,
    NodeExplanation,
    Obstacle,
    OperatorFact,
    TransformFact,
)
from relay_layout.explanation.readable import Letters, shown
from relay_layout.explanation.reasons import (
    COSTS_MORE,
    UNREACHED,
    candidates_around,
    cause,
    chooses,
    converted_around,
    is_unconverted,
    kept_reason,
    obstacle,
    partial_reason,
)
from relay_layout.explanation.transforms import Transform, transforms_of
from relay_layout.frontend import Params, load_model
from relay_layout.graph import Node
from relay_layout.ir import size_in_bytes
from relay_layout.ops import Signature
from relay_layout.ops.convolution_rule import ConvolutionRule
from relay_layout.plan import LayoutPlan, operator_us, plan_layout
from relay_layout.relay.conventions import names_carried
from relay_layout.request import LayoutRequest
from relay_layout.solver import Solution, solve
from relay_layout.targets import resolve_target
from relay_layout.targets.backend import LayoutBackend

SECONDS_FOR_ALTERNATIVES = 3.0
"""After this long no further alternative of a node is solved for."""

_MOST_NAMED = 5


def explain(
    model: Any,
    node: str | int | None = None,
    *,
    target: Any = "native",
    desired_layout: str = "auto",
    desired_layout_ops: Sequence[str] | None = None,
    desired_layouts: Mapping[str, Sequence[str]] | None = None,
    skip_layers: Sequence[int] = (),
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    params: Params | None = None,
    input_layouts: Mapping[str, str] | None = None,
    output_layouts: Mapping[str, str] | None = None,
    backend: LayoutBackend | None = None,
    threads: int | None = None,
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    shipped_records: bool = True,
    winograd: bool = True,
) -> Explanation | NodeExplanation:
    """What :func:`relay_layout.convert` chooses with the same arguments, and why; nothing is converted.

    Without ``node`` every operator that chooses or carries a layout. With ``node`` (a binding's name, a part
    of one that no other has, or an operator's index) all about that one, its alternatives among it. ``str()``
    of the result is for people, ``to_dict()`` for programs. InputError for a node that there is not.
    """
    request = LayoutRequest.parse(
        desired_layout,
        desired_layout_ops,
        desired_layouts,
        skip_layers,
        input_layouts=input_layouts,
        output_layouts=output_layouts,
        backend=backend,
    )
    resolved = resolve_target(
        target,
        threads=threads,
        tuning_records=tuning_records,
        shipped_records=shipped_records,
        winograd=winograd,
    )
    module = load_model(model, input_shapes=input_shapes, params=params)
    module = canonicalize(module, keep_carried=names_carried(request.desired_layouts))
    plan = plan_layout(with_border_layouts(module, request), request, resolved)
    return explain_plan(plan) if node is None else explain_node(plan, find_node(plan, node))


def explain_plan(plan: LayoutPlan) -> Explanation:
    """The operators of a plan that choose or carry a layout."""
    reader = _Reader(plan)
    places = [place for place, node in enumerate(plan.graph.nodes) if reader.takes_part(node)]
    return Explanation(
        operators=tuple(reader.operator(place) for place in places),
        others=len(plan.graph.nodes) - len(places),
        transforms=tuple(map(reader.fact, reader.transforms)),
        solver_status=plan.solution.status,
        objective_us=reader.objective_us,
    )


def explain_node(plan: LayoutPlan, node: Node) -> NodeExplanation:
    """One operator of a plan; its alternatives cost a solver's run each."""
    reader = _Reader(plan)
    around = [each for each in reader.transforms if node in each.readers or each.value.producer is node]
    fact = reader.operator(plan.graph.nodes.index(node))
    alternatives = reader.alternatives(node)
    reason = fact.reason
    if not reason and is_unconverted(plan, node):
        reason = cause(plan, node, reader.letters) or (UNREACHED if len(alternatives) == 1 else COSTS_MORE)
    if reason == COSTS_MORE and len(alternatives) > 1 and alternatives[1].more_us is not None:
        reason += f"; the next best way: {text.difference(alternatives[1])}"
    return NodeExplanation(
        operator=replace(fact, reason=reason),
        operand_names=tuple(value.name for value in node.operands),
        result_names=tuple(value.name for value in node.results),
        alternatives=tuple(alternatives),
        transforms=tuple(map(reader.fact, around)),
        obstacles=tuple(reader.obstacles(node)),
        solver_status=plan.solution.status,
        objective_us=reader.objective_us,
    )


def find_node(plan: LayoutPlan, node: str | int) -> Node:
    """The operator that a name, a part of one, or an index means. InputError for none and for several."""
    nodes = plan.graph.nodes
    wanted = str(node)
    exact = [candidate for candidate in nodes if candidate.name == wanted] if isinstance(node, str) else []
    if len(exact) == 1:
        return exact[0]
    if not exact and wanted.removeprefix("-").isdecimal():
        if len(wanted) < 10 and 0 <= int(wanted) < len(nodes):
            return nodes[int(wanted)]
        bound = f"indices are 0 to {len(nodes) - 1}" if nodes else "the model has none"
        raise InputError(f"there is no operator {shown(wanted)}; {bound}")
    fitting = exact or [candidate for candidate in nodes if wanted and wanted in candidate.name]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        named = [f"{shown(each.name)} (index {nodes.index(each)})" for each in fitting[:_MOST_NAMED]]
        rest = f" and {len(fitting) - _MOST_NAMED} more" if len(fitting) > _MOST_NAMED else ""
        raise InputError(
            f"'{shown(wanted)}' fits {len(fitting)} operators: {', '.join(named)}{rest}; "
            "give a whole name or an index"
        )
    names = [candidate.name for candidate in nodes]
    near = difflib.get_close_matches(wanted, names, n=_MOST_NAMED, cutoff=0.5) or names[:_MOST_NAMED]
    hint = f"; did you mean {', '.join(map(shown, near))}?" if near else "; the model has no operators"
    raise InputError(f"there is no operator '{shown(wanted)}'{hint}")


class _Reader:
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
        plan = self.plan
        return (
            len(plan.signatures[node]) > 1
            or not is_unconverted(plan, node)
            or bool(converted_around(plan, node))
            or isinstance(plan.rules(node), ConvolutionRule)
        )

    def kind(self, node: Node) -> str:
        if chooses(self.plan, node):
            return "chosen"
        return "keeps its own" if is_unconverted(self.plan, node) else "follows"

    def operator(self, place: int) -> OperatorFact:
        plan, node = self.plan, self.plan.graph.nodes[place]
        signature = plan.solution.signatures[node]
        operands, results = self.letters.signature(node, signature)
        reason = kept_reason(plan, node, self.letters)
        if not reason and is_unconverted(plan, node) and isinstance(plan.rules(node), ConvolutionRule):
            reason = cause(plan, node, self.letters)
        reason = reason or partial_reason(plan, node, self.letters)
        return OperatorFact(
            place,
            node.name,
            node.operator,
            self.kind(node),
            operands,
            results,
            round(operator_us(signature), 3),
            tuple(map(self.fact, self._read_by.get(node, ()))),
            reason,
        )

    def fact(self, transform: Transform) -> TransformFact:
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
                objective = inf if solution is None else solution.objective_us
                others.append((objective, self._alternative(node, signature, solution)))
        return found + [each for _, each in sorted(others, key=lambda pair: pair[0])]

    def _forced(self, node: Node, signature: Signature, seconds: float) -> Solution | None:
        """The best choice in which ``node`` runs that way; None where it is not found in time."""
        plan = self.plan
        choices = {**plan.signatures, node: [signature]}
        solution = solve(plan.graph, choices, plan.solver_cost, plan.outputs, time_limit=seconds)
        return None if solution.status == "time limit" else solution

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
            round(operator_us(signature), 3),
            signature is chosen[node],
            more_us,
            more_transforms,
        )

    def obstacles(self, node: Node) -> list[Obstacle]:
        values = [*node.operands, *node.results]
        found = []
        for place, layout in candidates_around(self.plan, node):
            reason = obstacle(self.plan, node, place, layout, self.letters)
            if reason:
                value = values[place]
                found.append(Obstacle(value.name, self.letters.layout(value, layout), reason))
        return found
