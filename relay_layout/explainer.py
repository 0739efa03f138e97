"""``relay_layout.explain``: what was chosen for a model's operators, and what else there was."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from relay_layout.choice.plan import LayoutPlan, rename_inside
from relay_layout.choice.solver import status_of_all
from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.explanation.explanation import Explanation, NodeExplanation, difference
from relay_layout.explanation.facts import OperatorFact
from relay_layout.explanation.finding import place_of
from relay_layout.explanation.reader import PlanReader
from relay_layout.explanation.reasons import COSTS_MORE, DOUBTFUL
from relay_layout.frontend import Model, Params, load_model
from relay_layout.graph import Node
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.conversion import inference_form
from relay_layout.rewrite.convert_layout import parts, planned
from relay_layout.targets import TargetLike, resolve_target
from relay_layout.targets.backend import LayoutBackend


@one_at_a_time
def explain(
    model: Model,
    node: str | int | None = None,
    *,
    target: TargetLike = "native",
    desired_layout: str = "auto",
    desired_layout_ops: Sequence[str] | None = None,
    desired_layouts: Mapping[str, Sequence[str]] | None = None,
    skip_layers: Sequence[int] = (),
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    params: Params | None = None,
    input_layouts: Mapping[str, str] | None = None,
    output_layouts: Mapping[str, str] | None = None,
    input_dim_orders: Mapping[str, Sequence[int]] | None = None,
    output_dim_orders: Mapping[str, Sequence[int]] | None = None,
    backend: LayoutBackend | None = None,
    threads: int | None = None,
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    shipped_records: bool = True,
    winograd: bool = True,
    precision: str = "fp32",
) -> Explanation | NodeExplanation:
    """What :func:`relay_layout.convert` chooses with the same arguments, and why; nothing is converted.

    Without ``node`` every operator that chooses or carries a layout. With ``node`` (a binding's name, a part
    of one that no other has, or an operator's index) all about that one, its alternatives among it. Operators
    of bodies come after those of "main", with the body's name and a dot before theirs. ``str()`` of the
    result is for people, ``to_dict()`` for programs. InputError for an unknown node.
    """
    request = LayoutRequest.parse(
        desired_layout,
        desired_layout_ops,
        desired_layouts,
        skip_layers,
        input_layouts=input_layouts,
        output_layouts=output_layouts,
        input_dim_orders=input_dim_orders,
        output_dim_orders=output_dim_orders,
        backend=backend,
    )
    resolved = resolve_target(
        target,
        threads=threads,
        tuning_records=tuning_records,
        shipped_records=shipped_records,
        winograd=winograd,
        precision=precision,
    )
    module = load_model(model, input_shapes=input_shapes, params=params)
    module = inference_form(module, request, resolved)
    plans = []
    for name, part, asked in parts(module, request):
        _, plan = planned(part, asked, resolved)
        plans.append(rename_inside(name, plan) if name else plan)
    if node is None:
        return explain_plans(plans)
    nodes = [(plan, each) for plan in plans for each in plan.graph.nodes]
    place = place_of([each.name for _, each in nodes], node)
    found = explain_node(*nodes[place])
    return replace(found, operator=replace(found.operator, index=place))


def explain_plans(plans: Sequence[LayoutPlan]) -> Explanation:
    """The operators of "main" and of bodies that choose or carry a layout, counted one after another."""
    readers = list(map(PlanReader, plans))
    operators: list[OperatorFact] = []
    before = 0
    for plan, reader in zip(plans, readers, strict=True):
        for place, node in enumerate(plan.graph.nodes):
            if reader.takes_part(node):
                operators.append(replace(reader.operator(place), index=before + place))
        before += len(plan.graph.nodes)
    return Explanation(
        operators=tuple(operators),
        others=before - len(operators),
        transforms=tuple(reader.fact(each) for reader in readers for each in reader.transforms),
        solver_status=status_of_all(plan.solution.status for plan in plans),
        objective_us=sum(reader.objective_us for reader in readers),
    )


def explain_node(plan: LayoutPlan, node: Node) -> NodeExplanation:
    """One operator of a plan; its alternatives cost a solver's run each."""
    reader = PlanReader(plan)
    around = [each for each in reader.transforms if node in each.readers or each.value.producer is node]
    fact = reader.operator(plan.graph.nodes.index(node))
    alternatives = reader.alternatives(node)
    reason = reader.kept_because(node, fact.reason, len(alternatives))
    if reason == COSTS_MORE and len(alternatives) > 1 and (more_us := alternatives[1].more_us) is not None:
        told = COSTS_MORE if more_us >= 0 else DOUBTFUL
        reason = f"{told}; the next best way: {difference(alternatives[1])}"
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
