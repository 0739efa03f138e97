"""From a module and a request to the chosen signature of every operator."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm

from relay_layout.bodies import name_inside
from relay_layout.choice.candidates import collect_signatures
from relay_layout.choice.objective import Objective
from relay_layout.choice.solver import Solution, solve
from relay_layout.errors import LayoutError
from relay_layout.graph import Graph, Node, Value, build_graph
from relay_layout.layout import Layout
from relay_layout.layout_request import LayoutRequest
from relay_layout.ops import Offers, Rules, Signature, unchanged
from relay_layout.ops.dimension_names import DimensionNames
from relay_layout.relay.callbacks import CONVERT
from relay_layout.relay.callbacks.rules import rules_for
from relay_layout.targets import (
    CONVOLUTION_AXES,
    CONVOLUTIONS,
    TRANSPOSED_CONVOLUTIONS,
    BuildTarget,
    DesiredOffers,
    TargetOffers,
)
from relay_layout.targets.backend import RequiredRule, backend_rules
from relay_layout.targets.transform_cost import TransformPrice


@dataclass(frozen=True)
class LayoutPlan:
    """What was chosen for one function, and from what."""

    graph: Graph
    signatures: Mapping[Node, Sequence[Signature]]
    """The alternatives of each node."""

    solution: Solution
    outputs: Mapping[Value, Layout]
    """The layouts that results must have."""

    reasons: Mapping[str, str]
    """Why a desired layout was not offered, by node name."""

    rules: Rules
    offers: Offers
    desired: Mapping[str, Sequence[str]] | None
    """The layouts that the caller asked for, by operator."""

    skipped: frozenset[Node]
    """The nodes that the caller asked to leave alone; they have no rule."""

    objective: Objective
    """What the solution minimises."""

    def price(self, value: Value, source: Layout, target: Layout) -> TransformPrice:
        """The cost of transforming a value from one layout to another."""
        return self.objective.price(value, source, target)

    def best_of(self, signatures: Mapping[Node, Sequence[Signature]], time_limit: float) -> Solution:
        """The best choice among other alternatives, found within ``time_limit`` seconds."""
        objective = self.objective
        return solve(
            self.graph,
            signatures,
            objective.transform,
            self.outputs,
            operator_cost=objective.operator,
            time_limit=time_limit,
        )

    def microseconds(self, chosen: Mapping[Node, Signature], transforms: Iterable[TransformPrice]) -> float:
        """The estimate for the whole function: its chosen operators, and these transforms."""
        operators = sum(signature.cost for signature in chosen.values())
        return operators + sum(each.microseconds for each in transforms)


def plan_layout(module: tvm.IRModule, request: LayoutRequest, target: BuildTarget) -> LayoutPlan:
    """Choose layouts for the function "main" of a module in normal form.

    Raises LayoutError for a request that does not fit the module.
    """
    graph = build_graph(module["main"])
    desired = _desired(graph, request)
    offers, pinned = _offers(graph, desired, target)
    outputs = {value: value.identity for value in graph.outputs()}
    skipped = _skipped(graph, request)
    left_alone: dict[str, str] = {}
    rules = rules_for(graph, desired, request.alter, left_alone)
    if request.backend is not None:
        rules = backend_rules(request.backend, DimensionNames(graph), rules)
    rules = _rules_without(skipped, rules)
    signatures = collect_signatures(graph, offers, rules=rules, pinned=pinned)
    if request.desired_layouts == {} and request.for_all is None:
        signatures = {node: choices[:1] for node, choices in signatures.items()}
    objective = Objective(target, fewest_first=pinned)
    solution = solve(graph, signatures, objective.transform, outputs, operator_cost=objective.operator)
    left_alone |= _misfits(signatures, rules)
    reasons = {**(offers.reasons if isinstance(offers, DesiredOffers) else {}), **left_alone}
    return LayoutPlan(
        graph,
        signatures,
        solution,
        outputs,
        reasons,
        rules,
        offers,
        desired,
        skipped,
        objective,
    )


def _misfits(signatures: Mapping[Node, Sequence[Signature]], rules: Rules) -> dict[str, str]:
    """What keeps operators from all that a backend requires of them, by their names."""
    found = {}
    for node, choices in signatures.items():
        rule = rules(node)
        if not isinstance(rule, RequiredRule):
            continue
        original = unchanged(node)
        kept = all(
            (choice.operands, choice.results) == (original.operands, original.results) for choice in choices
        )
        if kept and rule.misfit(node):
            found[node.name] = rule.misfit(node)
    return found


def rename_inside(body: str, plan: LayoutPlan) -> LayoutPlan:
    """Prefixes the name of a body to those of operators and tensors, in the plan's own graph, and gives the
    plan with its reasons under these names.
    """
    for node in plan.graph.nodes:
        node.name = name_inside(body, node.name)
    for tensor in dict.fromkeys(plan.graph.tensors()):
        tensor.name = name_inside(body, tensor.name)
    return replace(plan, reasons={name_inside(body, name): why for name, why in plan.reasons.items()})


def _desired(graph: Graph, request: LayoutRequest) -> Mapping[str, Sequence[str]] | None:
    if request.for_all is None:
        return request.desired_layouts
    return _for_every(request.for_all, _convolutions(graph))


def _offers(
    graph: Graph, desired: Mapping[str, Sequence[str]] | None, target: BuildTarget
) -> tuple[Offers, bool]:
    """What convolutions are offered, and whether that is pinned by the caller.

    Convolutions that a callback of the caller decides on are offered nothing.
    """
    base = TargetOffers(target)
    if desired is None:
        return base, False
    offered = {name: layouts for name, layouts in desired.items() if CONVERT.get(name) is None}
    followers = (
        frozenset(name for name in TRANSPOSED_CONVOLUTIONS if name not in desired) if offered else frozenset()
    )
    return DesiredOffers(offered, base, _convolutions(graph), followers), True


def _convolutions(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.operator in CONVOLUTION_AXES]


def _counted(graph: Graph) -> list[Node]:
    """The convolutions that ``skip_layers`` counts: those that Relay counts, and 1-D and 3-D ones."""
    counted = (*CONVOLUTIONS, "relay.nn.deformable_conv2d")
    return [node for node in graph.nodes if node.operator in counted]


def _skipped(graph: Graph, request: LayoutRequest) -> frozenset[Node]:
    """The convolutions to leave alone; LayoutError if the module does not have them."""
    counted = dict(enumerate(_counted(graph)))
    missing = sorted(request.skip_layers - counted.keys())
    if missing and not request.for_any_module:
        raise LayoutError(
            f"there is no convolution {missing[0]} to skip; the model has {len(counted) or 'none'}, "
            "counted from 0 without transposed ones"
        )
    return frozenset(node for place, node in counted.items() if place in request.skip_layers)


def _rules_without(skipped: frozenset[Node], rules: Rules) -> Rules:
    """``rules``, with none for ``skipped`` nodes, which nothing may then convert."""
    return lambda node: None if node in skipped else rules(node)


def _for_every(layout: str, convolutions: Sequence[Node]) -> dict[str, Sequence[str]]:
    """The layout for every operator among ``convolutions`` that has its axes.

    If none has, for the first convolution, so that the error message names it.
    """
    axes = sorted(Layout.parse(layout).primal)
    fitting = {name for name, own in CONVOLUTION_AXES.items() if sorted(own) == axes}
    present = {node.operator for node in convolutions}
    if convolutions and not fitting & present:
        fitting = {convolutions[0].operator}
    return {name: [layout, "default"] for name in fitting}
