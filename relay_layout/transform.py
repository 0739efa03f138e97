"""ConvertLayout: graph, solver, rewriter and verifier as one TVM pass."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from relay_layout.candidates import collect_signatures
from relay_layout.graph import Graph, Node, Value, build_graph
from relay_layout.ir import size_in_bytes
from relay_layout.layout import Layout
from relay_layout.ops import Offers
from relay_layout.relay.callbacks import CONVERT
from relay_layout.relay.conventions import check_desired
from relay_layout.relay.layout_rules import rules_for
from relay_layout.rewrite import rewrite
from relay_layout.solver import Solution, solve
from relay_layout.targets import CONVOLUTION_AXES, BuildTarget, DesiredOffers, TargetOffers, resolve_target
from relay_layout.verify import verify

FEWEST_FIRST_US = 1e6
"""Added to each transform where the caller names the layouts, who then wants as few transforms as possible.

More than all operators of a network cost together, so that costs only decide between equal numbers.
"""


@dataclass(frozen=True)
class LayoutRequest:
    """What the caller wants of layouts.

    ``desired_layouts`` is None for the solver's own choice, ``{}`` for none, or Relay's dictionary of
    operator name to layouts. ``for_all`` is a layout for every convolution with its axes instead.
    ``skip_layers`` counts convolutions from 0 in the order they run. With ``alter`` the callbacks of
    ``register_alter_op_layout`` are asked.
    """

    desired_layouts: Mapping[str, Sequence[str]] | None = None
    for_all: str | None = None
    skip_layers: frozenset[int] = frozenset()
    alter: bool = False

    @staticmethod
    def parse(
        desired_layout: str = "auto",
        operators: Sequence[str] | None = None,
        desired_layouts: Mapping[str, Sequence[str]] | None = None,
        skip_layers: Sequence[int] = (),
    ) -> "LayoutRequest":
        """From the command line's options: ``auto``, ``none``, a layout name, or a dictionary."""
        skipped = frozenset(skip_layers)
        if desired_layouts is not None:
            desired = {name.removeprefix("relax."): value for name, value in desired_layouts.items()}
            return LayoutRequest(check_desired(desired), skip_layers=skipped)
        if desired_layout == "auto":
            return LayoutRequest(None, skip_layers=skipped)
        if desired_layout == "none":
            return LayoutRequest({}, skip_layers=skipped)
        Layout.parse(desired_layout)
        if operators is None:
            return LayoutRequest({}, for_all=desired_layout, skip_layers=skipped)
        return LayoutRequest.parse(
            desired_layouts={name: [desired_layout, "default"] for name in operators}, skip_layers=skip_layers
        )


@dataclass(frozen=True)
class ConversionReport:
    """What one conversion did; counts are of transforms left to run, bytes of what they move."""

    layout_transforms: int
    layout_transforms_weights: int
    layout_transform_bytes: int
    solver_status: str
    objective_us: float
    solver_seconds: float
    seconds: float
    verified: bool
    layouts: Mapping[str, str]
    not_converted: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The fields under the names that the command line prints."""
        return {
            "layout_transforms": self.layout_transforms,
            "layout_transforms_weights": self.layout_transforms_weights,
            "layout_transform_bytes": self.layout_transform_bytes,
            "solver": {
                "status": self.solver_status,
                "objective_us": round(self.objective_us, 3),
                "seconds": round(self.solver_seconds, 4),
            },
            "verified": self.verified,
            "layouts": dict(self.layouts),
            "not_converted": dict(self.not_converted),
            "conversion_seconds": round(self.seconds, 4),
        }


def convert_layout(
    module: tvm.IRModule, request: LayoutRequest, target: BuildTarget
) -> tuple[tvm.IRModule, ConversionReport]:
    """Convert the function "main" of a Relax module; other functions are left as they are."""
    start = time.perf_counter()
    module = relax.transform.Normalize()(module)
    graph = build_graph(module["main"])
    desired = _desired(graph, request)
    offers, pinned = _offers(graph, desired, request, target)
    outputs = {value: value.identity for value in graph.outputs()}
    rules = rules_for(graph, desired, request.alter, _skipped(graph, request.skip_layers))
    signatures = collect_signatures(graph, offers, rules=rules, pinned=pinned)
    if request.desired_layouts == {} and request.for_all is None:
        signatures = {node: choices[:1] for node, choices in signatures.items()}
    cost = _transform_cost(target, FEWEST_FIRST_US if pinned else 0.0)
    solution = solve(graph, signatures, cost, outputs)
    rewritten = rewrite(graph, solution, outputs)
    verify("main", rewritten.placements)
    converted = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    converted.update_func(module.get_global_var("main"), rewritten.function)
    reasons = offers.reasons if isinstance(offers, DesiredOffers) else {}
    report = ConversionReport(
        layout_transforms=rewritten.transforms.activations,
        layout_transforms_weights=rewritten.transforms.weights,
        layout_transform_bytes=rewritten.transforms.activation_bytes,
        solver_status=solution.status,
        objective_us=solution.objective_us % FEWEST_FIRST_US if pinned else solution.objective_us,
        solver_seconds=solution.seconds,
        seconds=time.perf_counter() - start,
        verified=True,
        layouts=_convolution_layouts(graph, solution),
        not_converted=reasons,
    )
    return converted, report


def _desired(graph: Graph, request: LayoutRequest) -> Mapping[str, Sequence[str]] | None:
    if request.for_all is None:
        return request.desired_layouts
    convolutions = [node for node in _counted(graph) if node.operator in CONVOLUTION_AXES]
    return _for_every(request.for_all, convolutions)


def _offers(
    graph: Graph,
    desired: Mapping[str, Sequence[str]] | None,
    request: LayoutRequest,
    target: BuildTarget,
) -> tuple[Offers, bool]:
    """What convolutions are offered; those that a callback of the caller's decides are offered nothing."""
    base = TargetOffers(target)
    if desired is None:
        return base, False
    positions = {node: place for place, node in enumerate(_counted(graph))}
    offered = {name: layouts for name, layouts in desired.items() if CONVERT.get(name) is None}
    return DesiredOffers(offered, base, request.skip_layers, positions=positions), True


def _counted(graph: Graph) -> list[Node]:
    """The convolutions that ``skip_layers`` counts: as Relay does, and those of one and three dimensions."""
    counted = (*CONVOLUTION_AXES, "relay.nn.deformable_conv2d")
    return [node for node in graph.nodes if node.operator in counted]


def _skipped(graph: Graph, positions: frozenset[int]) -> frozenset[Node]:
    return frozenset(node for place, node in enumerate(_counted(graph)) if place in positions)


def _for_every(layout: str, convolutions: Sequence[Node]) -> dict[str, Sequence[str]]:
    """The operators among ``convolutions`` that have the axes of ``layout``; an error if none has."""
    axes = sorted(Layout.parse(layout).primal)
    fitting = {name for name, own in CONVOLUTION_AXES.items() if sorted(own) == axes}
    present = {node.operator for node in convolutions}
    if convolutions and not fitting & present:
        fitting = {convolutions[0].operator}
    return {name: [layout, "default"] for name in fitting}


def _transform_cost(target: BuildTarget, surcharge: float) -> Any:
    facts = target.facts

    def cost(value: Value) -> float:
        """A read and a write of every byte, and one more kernel to launch."""
        if value.constant is not None or value.shape is None:
            return 0.0
        moved = 2 * size_in_bytes(value.shape, value.dtype)
        return surcharge + facts.launch_us + moved / (facts.gigabytes_per_second * 1e3)

    return cost


def _convolution_layouts(graph: Graph, solution: Solution) -> dict[str, str]:
    """Data layout to result layout of each convolution, by binding."""
    chosen = {}
    for node in graph.nodes:
        if node.operator == "nn.conv2d":
            attributes = {
                "data_layout": str(node.attributes.data_layout),
                "out_layout": str(node.attributes.out_layout or node.attributes.data_layout),
                **solution.signatures[node].attributes,
            }
            chosen[node.name] = f"{attributes['data_layout']}->{attributes['out_layout']}"
    return chosen


@tvm.transform.module_pass(opt_level=0, name="relay_layout.ConvertLayout")
class ConvertLayout:
    """Relay's ConvertLayout as a pass over Relax modules.

    ``desired_layouts`` is Relay's dictionary, e.g. ``{"nn.conv2d": ["NHWC", "default"]}``, a layout
    name for all convolutions, or None for the choice that costs least on ``target``.
    """

    def __init__(
        self,
        desired_layouts: Mapping[str, Sequence[str]] | str | None = None,
        *,
        target: Any = "native",
        skip_layers: Sequence[int] = (),
    ) -> None:
        if isinstance(desired_layouts, str):
            self.request = LayoutRequest.parse(desired_layouts, skip_layers=skip_layers)
        elif desired_layouts is None:
            self.request = LayoutRequest(skip_layers=frozenset(skip_layers))
        else:
            self.request = LayoutRequest.parse(desired_layouts=desired_layouts, skip_layers=skip_layers)
        self.target = resolve_target(target)

    def transform_module(self, module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        """The converted module; a transform cost report is not kept (see :func:`convert_layout`)."""
        del context
        return convert_layout(module, self.request, self.target)[0]
