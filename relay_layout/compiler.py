"""Compilation from end to end: from a model to an artifact."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from relay_layout.artifact import (
    Artifact,
    Build,
    Condition,
    Content,
    Manifest,
    Producer,
    TensorSpec,
    joined,
    write_artifact,
)
from relay_layout.artifact.placement import shared
from relay_layout.bodies import name_inside
from relay_layout.choice.plan import LayoutPlan
from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.environment.versions import __version__
from relay_layout.errors import TargetError
from relay_layout.frontend import Model, Params, load_model
from relay_layout.graph.border import size_conditions
from relay_layout.layout_request import LayoutRequest
from relay_layout.lower.body_lowering import Lowered, symbol_of
from relay_layout.lower.index_limits import index_limits
from relay_layout.lower.kernel_calls import (
    KernelCall,
    called_functions,
    calls_left,
    renamed,
    variants_of,
)
from relay_layout.lower.library.link import link_command
from relay_layout.lower.plain_loops import warn_of_plain_loops
from relay_layout.lower.schedule import Kernel
from relay_layout.lower.stages import Progress, build_library, count_operations, lower, plan_memory
from relay_layout.report.choices import model_report, target_report
from relay_layout.report.files import check_report_path, write_report
from relay_layout.report.kernels import described_calls, plain
from relay_layout.report.schema import Target
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.conversion import convert_network
from relay_layout.rewrite.convert_layout import ConversionReport
from relay_layout.rewrite.widening import with_wide_border
from relay_layout.runtime.session import Session
from relay_layout.targets import BuildTarget, TargetLike, resolve_target
from relay_layout.targets.backend import LayoutBackend
from relay_layout.tensor_specs import Border, border_of, tensor_specs

SOURCES = ("tuned", "modelled", "default", "fallback")
"""Where kernels of convolutions and poolings come from, in the order in which a report counts them."""


@dataclass(frozen=True)
class Conversion:
    """A converted module, a report of what was done, and the plans by which layouts were chosen.

    ``plan`` is that of "main"; ``plans_of_bodies`` are those of the loops and branches that it runs.
    """

    module: tvm.IRModule
    report: dict[str, Any]
    plan: LayoutPlan = field(repr=False)
    plans_of_bodies: tuple[LayoutPlan, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class CompiledModel:
    """A built network: the manifest, and for each of its builds the shared library and the weights."""

    manifest: Manifest
    contents: tuple[Content, ...] = field(repr=False)

    @property
    def report(self) -> dict[str, Any]:
        """The fields that ``relay-layout compile --json`` prints; see :attr:`.Manifest.report`."""
        return self.manifest.report

    def session(
        self, *, threads: int | None = None, target: str | None = None, permute: bool | None = None
    ) -> Session:
        """The network, ready to run in this process, as :func:`relay_layout.load` gives it from a file.

        Raises what that does for other machines and targets.
        """
        artifact = Artifact("the compiled model", self.manifest, self.contents)
        return Session(artifact, threads=threads, target=target, permute=permute)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact; nothing is left at ``path`` if writing fails."""
        write_artifact(Path(path), self.manifest, self.contents)


@one_at_a_time
def convert(
    model: Model,
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
) -> Conversion:
    """Load a model and convert its layouts; nothing is compiled.

    ``model`` is a file, the name of a built-in network, a Relax module, an ONNX ModelProto or a program of
    ``torch.export``; ``input_shapes`` gives its inputs extents, and ``params`` are weights for a Relay file:
    a params file, or arrays by name. ``target`` is anything that
    :func:`relay_layout.targets.resolve_target` takes, and ``threads`` how many its kernels are shaped for
    (all cores by default). The layout options are those of ``relay-layout compile``. ``input_layouts`` and
    ``output_layouts`` fix layouts of inputs and outputs, by name. ``input_dim_orders`` and
    ``output_dim_orders`` declare the order in which dimensions lie in memory, such as (0, 2, 3, 1), while
    shapes stay as they are; they override what the model declares. A ``backend`` is asked for each operator
    which layouts and alignments it accepts. Costs come from ``tuning_records``, logs of ``relay-layout
    tune``, and from the package's own logs unless ``shipped_records`` is false. With ``winograd`` false only
    kernels that round like the direct convolution are used. ``precision`` is what floats are multiplied in:
    "fp32", "bf16" on processors that have instructions for it, "fp16" or "tf32" on CUDA. Raises subclasses of
    :class:`RelayLayoutError`.
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
    converted, report = convert_network(module, request, resolved)
    plans_of_bodies = tuple(body.plan for body in report.bodies.values())
    return Conversion(converted, joined(report.to_dict(), report.times()), report.plan, plans_of_bodies)


@one_at_a_time
def compile(
    model: Model,
    *,
    target: "TargetLike | Sequence[TargetLike]" = "native",
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
    threads: int | None = None,
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    shipped_records: bool = True,
    winograd: bool = True,
    precision: str = "fp32",
    report: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model: import it, convert layouts, lower it with our kernels, and build it.

    Arguments are those of :func:`convert` but for ``backend``, whose kernels are not ours. ``target`` may be
    a list of targets, the least demanding first: the result then holds code for each, and a machine that
    loads it takes the last one that it can run. ``report`` is a file ending in .html or .json for what was
    chosen and why (:mod:`relay_layout.report`); ``progress`` is called with one line per stage. Inputs and
    outputs that are bfloat16 in the model are float32. Threads take turns
    (:mod:`relay_layout.environment.one_at_a_time`); networks run meanwhile. Raises subclasses of
    :class:`RelayLayoutError`.
    """
    say = progress or (lambda line: None)
    start = time.perf_counter()
    if report is not None:
        check_report_path(report)
    request = LayoutRequest.parse(
        desired_layout,
        desired_layout_ops,
        desired_layouts,
        skip_layers,
        input_layouts=input_layouts,
        output_layouts=output_layouts,
        input_dim_orders=input_dim_orders,
        output_dim_orders=output_dim_orders,
    )
    resolve = partial(
        resolve_target,
        threads=threads,
        tuning_records=tuning_records,
        shipped_records=shipped_records,
        winograd=winograd,
    )
    targets = _in_precision(target if isinstance(target, list | tuple) else [target], precision, resolve)
    _check_targets(targets)
    # numpy has no bfloat16, and float32 all of its numbers.
    module = with_wide_border(load_model(model, input_shapes=input_shapes, params=params), ("bfloat16",))
    border, conditions = border_of(module["main"]), size_conditions(module["main"])
    built = []
    for resolved in targets:
        with index_limits():
            built.append(
                _built(module, request, border, resolved, say, since=start, described=report is not None)
            )
        start = time.perf_counter()
    producer = Producer(relay_layout=__version__, tvm=str(tvm.__version__))
    if report is not None:
        say(f"writing {os.fspath(report)}")
        write_report(report, model_report(model, producer, [each.report for each in built if each.report]))
    # The request fixes the layouts of inputs and outputs, so they are the same for all targets.
    inputs, outputs = built[0].specs
    ranks = {spec.name: len(spec.shape) for spec in inputs}
    checked = tuple(Condition(text, ranks) for text in conditions)
    manifest = Manifest(producer, inputs, outputs, tuple(each.build for each in built), checked)
    return CompiledModel(manifest, tuple(each.content for each in built))


@dataclass(frozen=True)
class _Built:
    """A network for one target, and its part of the report if one was asked for."""

    build: Build
    content: Content
    specs: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]
    report: Target | None


def _built(
    module: tvm.IRModule,
    request: LayoutRequest,
    border: Border,
    target: BuildTarget,
    say: Progress,
    *,
    since: float,
    described: bool,
) -> _Built:
    """Convert, lower and build for one target; ``since`` is when that began, by ``time.perf_counter``.

    With ``described`` the result has its part of a report.
    """
    say(f"target {target.name}: {target.description}")
    say("converting layouts")
    converted, conversion = convert_network(module, request, target)
    converted = canonicalize(converted)
    say(
        f"{conversion.layout_transforms} layout transforms left, "
        f"choice {conversion.solver_status} in {conversion.solver_seconds:.2f} s"
    )
    specs = tensor_specs(converted["main"], border, request)
    lowered = lower(converted, target, say)
    if not request.is_choice:
        warn_of_plain_loops(lowered.kernels, target.name)
    planned = plan_memory(lowered.module, target)
    variants = variants_of(planned)
    calls = described_calls(_calls(lowered, planned, conversion, variants), lowered.kernels, variants)
    content = Content(build_library(planned, target, say), shared(lowered.weights))
    seconds = time.perf_counter() - since
    found = _report(conversion, lowered.kernels, count_operations(lowered.module)) | {"calls": plain(calls)}
    times = {**conversion.times(), "compile_seconds": round(seconds, 3)}
    build = Build(target.name, target.manifest(), target.threads, found, times=times)
    part = target_report(build, conversion, calls, planned, content.weights) if described else None
    return _Built(build, content, specs, part)


def _calls(
    lowered: Lowered, planned: tvm.IRModule, conversion: ConversionReport, variants: Mapping[str, str]
) -> list[KernelCall]:
    """The kernel calls of "main" and then of each body, whose name is prefixed to those of its operators."""
    found = renamed(calls_left(lowered.calls, called_functions(planned), variants), conversion.names)
    for body, calls in lowered.calls_of_bodies.items():
        left = calls_left(calls, called_functions(planned, symbol_of(body)), variants)
        for call in renamed(left, conversion.bodies[body].names):
            operators = tuple(name_inside(body, name) for name in call.operators)
            found.append(replace(call, operators=operators, body=body))
    return found


def _in_precision(
    wanted: Sequence[TargetLike], precision: str, resolve: Callable[..., BuildTarget]
) -> list[BuildTarget]:
    """The targets in ``precision``; those that lack it use float32, unless all of them lack it."""
    targets, refused = [], []
    for name in wanted:
        try:
            targets.append(resolve(name, precision=precision))
        except TargetError as error:
            targets.append(resolve(name))
            refused.append(error)
    if refused and len(refused) == len(targets):
        raise refused[0]
    return targets


def _check_targets(targets: Sequence[BuildTarget]) -> None:
    """Raise TargetError, before any work is done, for targets that cannot be linked here, and duplicates."""
    if not targets:
        raise TargetError("the list of targets is empty")
    for index, target in enumerate(targets):
        if target.name in [other.name for other in targets[:index]]:
            raise TargetError(f"target {target.name} is given twice")
        link_command(target.cross_triple)


def _report(conversion: ConversionReport, kernels: Sequence[Kernel], operations: int) -> dict[str, Any]:
    sources = [kernel.source for kernel in kernels if kernel.workload]
    return {
        "ops": operations,
        **conversion.to_dict(),
        "kernels": {source: sources.count(source) for source in SOURCES},
        "functions": [
            {"name": kernel.name, "operator": kernel.operator, "source": kernel.source} for kernel in kernels
        ],
    }
