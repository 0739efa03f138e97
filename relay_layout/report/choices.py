"""The choice of layouts as data: every operator before and after, what else there was, what blocked it."""

import os
from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import tvm

from relay_layout.artifact import Build, Producer
from relay_layout.bodies import name_called, parts_of
from relay_layout.choice.plan import LayoutPlan
from relay_layout.explanation.reader import PlanReader
from relay_layout.explanation.transforms import of_value
from relay_layout.graph import Node as GraphNode
from relay_layout.graph import Value
from relay_layout.lower.memory.plan import planned_memory
from relay_layout.ops import Signature, unchanged
from relay_layout.report.schema import (
    KIND,
    SCHEMA,
    Call,
    Edge,
    Memory,
    Node,
    OtherWay,
    Refused,
    Report,
    Sides,
    Solver,
    Storage,
    Target,
    Transform,
)
from relay_layout.rewrite.convert_layout import ConversionReport

Described = tuple[list[Node], list[Edge], list[Transform]]


def model_report(model: object, producer: Producer, targets: Sequence[Target]) -> Report:
    """The report of a model that was compiled for ``targets``."""
    return Report(
        kind=KIND,
        schema=SCHEMA,
        model=os.path.basename(model) if isinstance(model, str | os.PathLike) else type(model).__name__,
        relay_layout=producer.relay_layout,
        tvm=producer.tvm,
        targets=list(targets),
    )


def target_report(
    build: Build,
    conversion: ConversionReport,
    calls: Sequence[Call],
    planned: tvm.IRModule,
    weights: Mapping[str, np.ndarray],
) -> Target:
    """What was chosen for one target; ``planned`` is the module of which its memory is planned.

    The graphs of bodies follow those of what runs them, with inputs and outputs of their own.
    """
    plan = conversion.plan
    nodes, edges, transforms = described_graph(plan, calls)
    inputs: dict[str, list[int]] = {}
    # Those that a body runs itself come before it, and are drawn after it.
    for name, body in reversed(list(conversion.bodies.items())):
        found = described_graph(body.plan, calls)
        inputs[name] = [len(nodes) + place for place, node in enumerate(found[0]) if node["type"] == "input"]
        _append((nodes, edges, transforms), found)
    edges += _to_bodies(conversion, {node["name"]: place for place, node in enumerate(nodes)}, inputs)
    return Target(
        name=build.name,
        target=dict(build.target),
        threads=build.num_threads_hint,
        solver=Solver(
            status=plan.solution.status,
            objective_us=round(build.report["solver"]["objective_us"], 3),
            seconds=round(plan.solution.seconds, 4),
        ),
        compile_seconds=build.times["compile_seconds"],
        nodes=nodes,
        edges=edges,
        transforms=transforms,
        calls=list(calls),
        memory=_memory(planned, sum(array.nbytes for array in weights.values())),
        profile=None,
    )


def described_graph(plan: LayoutPlan, calls: Sequence[Call]) -> Described:
    """The graph of a plan: inputs, operators and outputs, the tensors between them, what transforms them."""
    reader = PlanReader(plan)
    nodes, edges = _Describer(reader, calls).nodes_and_edges()
    return nodes, edges, _transforms(reader, calls)


def _append(whole: Described, part: Described) -> None:
    """Put a graph after others; places in its lists become those in theirs."""
    (nodes, edges, transforms), (own, own_edges, own_transforms) = whole, part
    for edge in own_edges:
        place = edge["transform"]
        edges.append(
            _edge(
                edge["source"] + len(nodes),
                edge["target"] + len(nodes),
                None if place is None else place + len(transforms),
            )
        )
    nodes += own
    transforms += own_transforms


def _to_bodies(
    conversion: ConversionReport, places: Mapping[str, int], inputs: Mapping[str, Sequence[int]]
) -> list[Edge]:
    """From each operator that runs bodies to the inputs of these; ``places`` are those of nodes by name."""
    functions = {name: body.plan.graph.function for name, body in conversion.bodies.items()}
    plans = [conversion.plan, *(body.plan for body in conversion.bodies.values())]
    runs = [
        (node, run) for plan in plans for node in plan.graph.nodes if (run := name_called(node.expression))
    ]
    return [
        _edge(places[node.name], place, None)
        for node, run in runs
        for part in parts_of(run, functions)
        for place in inputs[part]
    ]


class _Describer:
    """The nodes and edges of a plan."""

    def __init__(self, reader: PlanReader, calls: Sequence[Call]) -> None:
        self.reader, self.plan = reader, reader.plan
        self.chosen = dict(self.plan.solution.signatures)
        self.calls = {name: place for place, call in enumerate(calls) for name in call["operators"]}
        self._costs: dict[Value, tuple[float, int]] = {}

    def nodes_and_edges(self) -> tuple[list[Node], list[Edge]]:
        """Inputs, operators, outputs, in this order, and the tensors between them."""
        graph = self.plan.graph
        places: dict[Value | GraphNode, int] = {}
        nodes: list[Node] = []
        for value in graph.parameters:
            places[value] = len(nodes)
            nodes.append(self._border("input", value))
        for place, node in enumerate(graph.nodes):
            places[node] = len(nodes)
            nodes.append(self._operator(place, node))
        edges: list[Edge] = []
        transforms = self._transform_of_readers()
        sources = {value: places[value] for value in graph.parameters}
        sources |= {value: places[node] for node in graph.nodes for value in node.results}
        for node in graph.nodes:
            for value in dict.fromkeys(node.operands):
                if value in sources:
                    edges.append(_edge(sources[value], places[node], transforms.get((value, node))))
        for value in graph.outputs():
            if value in sources:
                edges.append(_edge(sources[value], len(nodes), transforms.get((value, None))))
            nodes.append(self._border("output", value))
        return nodes, edges

    def _transform_of_readers(self) -> dict[tuple[Value, GraphNode | None], int]:
        found: dict[tuple[Value, GraphNode | None], int] = {}
        for place, transform in enumerate(self.reader.transforms):
            for reader in transform.readers:
                found[transform.value, reader] = place
            if transform.is_output:
                found[transform.value, None] = place
        return found

    def _border(self, kind: str, value: Value) -> Node:
        layout = self.reader.letters.layout(value, value.identity)
        asked = self.plan.outputs.get(value, value.identity) if kind == "output" else value.identity
        after = self.reader.letters.layout(value, asked)
        before, chosen = [layout], [after]
        ends = kind == "output"
        return Node(
            type=kind,
            name=value.name,
            operator="",
            shape=_shape(value),
            dtype=value.dtype,
            operand_names=[],
            before=Sides(operands=before if ends else [], results=[] if ends else before),
            after=Sides(operands=chosen if ends else [], results=[] if ends else chosen),
            how="",
            reason="",
            moves_nothing=True,
            microseconds=0.0,
            alternatives=[],
            refused=[],
            call=None,
        )

    def _operator(self, place: int, node: GraphNode) -> Node:
        fact = self.reader.operator(place)
        choices = self.plan.signatures[node]
        alternatives = [self._alternative(node, signature) for signature in choices]
        alternatives.sort(key=lambda way: (not way["chosen"], way["more_us"]))
        reason = self.reader.kept_because(node, fact.reason, len(choices))
        refused = self.reader.obstacles(node) if len(choices) > 1 or fact.reason else []
        result = node.results[0] if node.results else None
        return Node(
            type="operator",
            name=node.name,
            operator=node.operator,
            shape=_shape(result) if result else [],
            dtype=result.dtype if result else "",
            operand_names=[value.name for value in node.operands],
            before=self._sides(node, unchanged(node)),
            after=self._sides(node, self.chosen[node]),
            how=fact.kind,
            reason=reason,
            moves_nothing=self.chosen[node].alias,
            microseconds=fact.microseconds,
            alternatives=alternatives,
            refused=[Refused(value=each.value, layout=each.layout, reason=each.reason) for each in refused],
            call=self.calls.get(node.name),
        )

    def _sides(self, node: GraphNode, signature: Signature) -> Sides:
        operands, results = self.reader.letters.signature(node, signature)
        return Sides(operands=list(operands), results=list(results))

    def _alternative(self, node: GraphNode, signature: Signature) -> OtherWay:
        chosen = self.chosen[node]
        more_us, more_transforms = 0.0, 0
        if signature is not chosen:
            more_us = signature.cost - chosen.cost
            forced = ChainMap({node: signature}, self.chosen)
            for value in dict.fromkeys([*node.operands, *node.results]):
                if value.constant is None and value.shape is not None:
                    cost, count = _cost(self.plan, forced, value)
                    usual_cost, usual_count = self._usual(value)
                    more_us += cost - usual_cost
                    more_transforms += count - usual_count
        return OtherWay(
            **self._sides(node, signature),
            microseconds=round(signature.cost, 3),
            chosen=signature is chosen,
            more_us=round(more_us, 3) + 0.0,
            more_transforms=more_transforms,
        )

    def _usual(self, value: Value) -> tuple[float, int]:
        if value not in self._costs:
            self._costs[value] = _cost(self.plan, self.chosen, value)
        return self._costs[value]


def _cost(plan: LayoutPlan, chosen: Mapping[GraphNode, Signature], value: Value) -> tuple[float, int]:
    """Microseconds and number of the transforms of one tensor."""
    transforms = of_value(plan, chosen, value)
    return sum(each.price.microseconds for each in transforms), len(transforms)


def _transforms(reader: PlanReader, calls: Sequence[Call]) -> list[Transform]:
    facts = [reader.fact(transform) for transform in reader.transforms]
    counts = Counter(fact.value for fact in facts)
    places = {name: place for place, call in enumerate(calls) for name in call["operators"]}
    return [
        Transform(
            value=fact.value,
            source=fact.source,
            target=fact.target,
            bytes=fact.bytes,
            microseconds=fact.microseconds,
            priced=fact.priced,
            readers=list(fact.readers),
            # Several transforms of one tensor have names that do not tell which is which.
            call=places.get(f"{fact.value}_transformed") if counts[fact.value] == 1 else None,
        )
        for fact in facts
    ]


def _edge(source: int, target: int, transform: int | None) -> Edge:
    return Edge(source=source, target=target, transform=transform)


def _shape(value: Value) -> list[int | str]:
    return [extent if isinstance(extent, int) else str(extent) for extent in value.shape or ()]


def _memory(planned: tvm.IRModule, weight_bytes: int) -> Memory:
    storages = planned_memory(planned)
    return Memory(
        weight_bytes=weight_bytes,
        storage_bytes=sum(storage.bytes for storage in storages),
        tensor_bytes=sum(tensor.bytes for storage in storages for tensor in storage.tensors),
        storages=[
            Storage(bytes=storage.bytes, tensors=[_tensor(tensor) for tensor in storage.tensors])
            for storage in storages
        ],
    )


def _tensor(tensor: Any) -> Any:
    return {**asdict(tensor), "shape": list(tensor.shape)}
