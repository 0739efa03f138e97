"""ConvertLayout: plan, rewriter and verifier as one TVM pass."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax
from tvm_ffi import register_error

from relay_layout.bodies import alone, bodies_of, name_inside, with_bodies, without_bodies
from relay_layout.choice.plan import LayoutPlan, plan_layout, rename_inside
from relay_layout.choice.solver import status_of_all
from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.errors import LayoutError, ModelError, TargetError, VerificationError
from relay_layout.explanation.reasons import not_converted
from relay_layout.ir import out_layout, with_main
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.border import with_border_layouts
from relay_layout.rewrite.rewriter import rewrite
from relay_layout.rewrite.unblocking import with_plain_operators
from relay_layout.targets import CONVOLUTION_AXES, BuildTarget, LayoutBackend, TargetLike, resolve_target
from relay_layout.targets.transform_cost import PRICE_SOURCES
from relay_layout.verify import verify

for _error in (KeyboardInterrupt, LayoutError, ModelError, TargetError, VerificationError):
    # What a pass raises goes through TVM, which gives back as they were only the exceptions that it knows.
    register_error(_error.__name__, _error)


@dataclass(frozen=True)
class ConversionReport:
    """What one conversion did: how many transforms are left to run, and how many bytes they move.

    ``layout_transform_us`` is what they are estimated to take, ``layout_transform_prices`` counts them by
    where the estimate comes from: "measured", "fitted" or "modelled". ``plan`` is what was chosen and from
    what, ``names`` gives the operator that a binding computes. ``bodies`` are the reports of what "main"
    runs, by name; all fields but ``plan`` and ``names`` include these.
    """

    layout_transforms: int
    layout_transforms_weights: int
    layout_transform_bytes: int
    layout_transform_us: float
    layout_transform_prices: Mapping[str, int]
    solver_status: str
    objective_us: float
    solver_seconds: float
    seconds: float
    verified: bool
    layouts: Mapping[str, str]
    not_converted: Mapping[str, str]
    plan: LayoutPlan = field(repr=False, compare=False)
    names: Mapping[str, str] = field(repr=False, compare=False)
    bodies: Mapping[str, "ConversionReport"] = field(default_factory=dict, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The fields under the names that the command line prints, which :meth:`times` belong among."""
        return {
            "layout_transforms": self.layout_transforms,
            "layout_transforms_weights": self.layout_transforms_weights,
            "layout_transform_bytes": self.layout_transform_bytes,
            "layout_transform_us": round(float(self.layout_transform_us), 3),
            "layout_transform_prices": {
                source: self.layout_transform_prices.get(source, 0) for source in PRICE_SOURCES
            },
            "solver": {
                "status": self.solver_status,
                "objective_us": round(float(self.objective_us), 3),
            },
            "verified": self.verified,
            "layouts": dict(self.layouts),
            "not_converted": dict(self.not_converted),
        }

    def times(self) -> dict[str, Any]:
        """The seconds that it took, by the places that they have in the report."""
        return {
            "solver": {"seconds": round(self.solver_seconds, 4)},
            "conversion_seconds": round(self.seconds, 4),
        }


def convert_layout(
    module: tvm.IRModule, request: LayoutRequest, target: BuildTarget
) -> tuple[tvm.IRModule, ConversionReport]:
    """Convert the function "main" of a Relax module, and bodies that it runs, each on its own.

    Other functions are left as they are. What a body takes and gives keeps its plain layout. A report counts
    the transforms of all and has the layouts of all, those of bodies after their names; its plan is "main"'s.
    """
    (_, main, asked), *bodies = parts(module, request)
    converted, report = _converted(main, asked, target)
    changed = {}
    for name, body, inside in bodies:
        changed[name], found = _converted(body, inside, target)
        report = _with_body(report, name, found)
    return (with_bodies(converted, changed) if changed else converted), report


def parts(module: tvm.IRModule, request: LayoutRequest) -> list[tuple[str, tvm.IRModule, LayoutRequest]]:
    """What is converted on its own, each as "main" of a module, with what is asked for it.

    That is "main" itself, with the name "", and the bodies by name.
    """
    bodies = bodies_of(module)
    inside = [(name, alone(body, module), request.inside()) for name, body in bodies.items()]
    return [("", without_bodies(module) if bodies else module, request), *inside]


def planned(
    module: tvm.IRModule, request: LayoutRequest, target: BuildTarget
) -> tuple[tvm.IRModule, LayoutPlan]:
    """What :func:`parts` gives, in the form in which it is rewritten, and the layouts that it gets."""
    # The rewriter's own blocks are blocks of dataflow, those of branches as well, which stay as they are.
    module = relax.transform.ConvertToDataflow(min_size=1)(module)
    module = with_border_layouts(with_plain_operators(module, request), request)
    return module, plan_layout(module, request, target)


def _with_body(report: ConversionReport, name: str, body: ConversionReport) -> ConversionReport:
    def named(entries: Mapping[str, str]) -> dict[str, str]:
        return {name_inside(name, entry): value for entry, value in entries.items()}

    prices = Counter(report.layout_transform_prices)
    prices.update(body.layout_transform_prices)
    return replace(
        report,
        layout_transforms=report.layout_transforms + body.layout_transforms,
        layout_transforms_weights=report.layout_transforms_weights + body.layout_transforms_weights,
        layout_transform_bytes=report.layout_transform_bytes + body.layout_transform_bytes,
        layout_transform_us=report.layout_transform_us + body.layout_transform_us,
        layout_transform_prices=prices,
        solver_status=status_of_all([report.solver_status, body.solver_status]),
        objective_us=report.objective_us + body.objective_us,
        solver_seconds=report.solver_seconds + body.solver_seconds,
        seconds=report.seconds + body.seconds,
        layouts={**report.layouts, **named(body.layouts)},
        not_converted={**report.not_converted, **named(body.not_converted)},
        bodies={**report.bodies, name: replace(body, plan=rename_inside(name, body.plan))},
    )


def _converted(
    module: tvm.IRModule, request: LayoutRequest, target: BuildTarget
) -> tuple[tvm.IRModule, ConversionReport]:
    start = time.perf_counter()
    module, plan = planned(module, request, target)
    rewritten = rewrite(plan.graph, plan.solution, dict(plan.outputs))
    verify("main", plan.graph, rewritten.function, plan.outputs, rewritten.placements)
    converted = with_main(module, rewritten.function)
    prices = [plan.price(*move) for move in rewritten.transforms.moves]
    report = ConversionReport(
        layout_transforms=rewritten.transforms.activations,
        layout_transforms_weights=rewritten.transforms.weights,
        layout_transform_bytes=rewritten.transforms.activation_bytes,
        layout_transform_us=sum(price.microseconds for price in prices),
        layout_transform_prices=Counter(price.source for price in prices),
        solver_status=plan.solution.status,
        objective_us=plan.microseconds(plan.solution.signatures, prices),
        solver_seconds=plan.solution.seconds,
        seconds=time.perf_counter() - start,
        verified=True,
        layouts=_convolution_layouts(plan),
        not_converted=not_converted(plan),
        plan=plan,
        names=rewritten.names,
    )
    return converted, report


def _convolution_layouts(plan: LayoutPlan) -> dict[str, str]:
    """Data layout to result layout of each convolution, by binding."""
    chosen = {}
    for node in plan.graph.nodes:
        if node.operator in CONVOLUTION_AXES:
            attributes = {
                "data_layout": str(node.attributes.data_layout),
                "out_layout": out_layout(node.attributes),
                **plan.solution.signatures[node].attributes,
            }
            chosen[node.name] = f"{attributes['data_layout']}->{attributes['out_layout']}"
    return chosen


@tvm.transform.module_pass(opt_level=0, name="relay_layout.ConvertLayout")
class ConvertLayout:
    """Relay's ConvertLayout as a pass over Relax modules.

    ``desired_layouts`` is Relay's dictionary, e.g. ``{"nn.conv2d": ["NHWC", "default"]}``, a layout
    name for all convolutions, or None for the choice that costs least on ``target``. A ``backend``
    (:class:`relay_layout.targets.LayoutBackend`) is asked per operator. ``input_layouts`` and
    ``output_layouts`` fix layouts at the border of the function, by name, ``input_dim_orders`` and
    ``output_dim_orders`` the order in memory of tensors whose shape the model keeps.
    """

    def __init__(
        self,
        desired_layouts: Mapping[str, Sequence[str]] | str | None = None,
        *,
        target: TargetLike = "native",
        skip_layers: Sequence[int] = (),
        backend: LayoutBackend | None = None,
        input_layouts: Mapping[str, str] | None = None,
        output_layouts: Mapping[str, str] | None = None,
        input_dim_orders: Mapping[str, Sequence[int]] | None = None,
        output_dim_orders: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.request = LayoutRequest.parse(
            desired_layouts if isinstance(desired_layouts, str) else "auto",
            desired_layouts=None if isinstance(desired_layouts, str) else desired_layouts,
            skip_layers=skip_layers,
            input_layouts=input_layouts,
            output_layouts=output_layouts,
            backend=backend,
            input_dim_orders=input_dim_orders,
            output_dim_orders=output_dim_orders,
        )
        self.target = resolve_target(target)

    @one_at_a_time
    def transform_module(self, module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        """The converted module; a transform cost report is not kept (see :func:`convert_layout`)."""
        return convert_layout(module, self.request, self.target)[0]
