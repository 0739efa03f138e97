"""The whole way from a model to something that runs."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.artifact import (
    Build,
    Condition,
    Content,
    Manifest,
    Producer,
    Quantization,
    TensorSpec,
    write_artifact,
)
from relay_layout.artifact.fields import DTYPES
from relay_layout.artifact.memory_order import channels_last
from relay_layout.choice.plan import LayoutPlan
from relay_layout.errors import ModelError, TargetError
from relay_layout.frontend import Params, load_model
from relay_layout.graph import build_graph
from relay_layout.graph.border import (
    dimension_letters,
    input_names,
    memory_orders,
    output_names,
    size_bounds,
    size_conditions,
)
from relay_layout.ir import shape_of
from relay_layout.lower.calls import (
    KernelCall,
    called_functions,
    calls_left,
    fused_calls,
    kernel_calls,
    renamed,
)
from relay_layout.lower.capabilities import with_capabilities
from relay_layout.lower.cuda_graph import check_extents
from relay_layout.lower.device_code import compiler_of, device_code
from relay_layout.lower.generate import generate
from relay_layout.lower.link import link_command, link_executable
from relay_layout.lower.passes import fuse_passes, legalize_passes, machine_passes, memory_passes
from relay_layout.lower.schedule import Kernel, schedule_functions
from relay_layout.lower.weights import lift_weights
from relay_layout.quantization.border import quantized_border
from relay_layout.relay.conventions import names_carried
from relay_layout.report.choices import model_report, target_report
from relay_layout.report.files import check_report_path, write_report
from relay_layout.report.kernels import described_calls, plain
from relay_layout.request import LayoutRequest
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.convert_layout import ConversionReport, convert_layout
from relay_layout.targets import BuildTarget, CudaTarget, resolve_target
from relay_layout.targets.backend import LayoutBackend
from relay_layout.versions import __version__
from topi_ext.build import PIPELINE
from topi_ext.cuda.build import PIPELINE as CUDA_PIPELINE

Progress = Callable[[str], None]

SOURCES = ("tuned", "modelled", "default", "fallback")
"""Where the kernels of convolutions and poolings come from, as a report counts them."""


@dataclass(frozen=True)
class Conversion:
    """A converted module, the report of what was done to it, and what the layouts were chosen from."""

    module: tvm.IRModule
    report: dict[str, Any]
    plan: LayoutPlan = field(repr=False)


@dataclass(frozen=True)
class CompiledModel:
    """A built network: the manifest, and for each of its builds the shared library and the weights."""

    manifest: Manifest
    contents: tuple[Content, ...]

    @property
    def report(self) -> dict[str, Any]:
        """The fields that ``relay-layout compile --json`` prints of the compilation.

        Of several targets, those of each under ``targets``, with its ``name``, and the sum of
        ``compile_seconds``.
        """
        builds = self.manifest.builds
        if len(builds) == 1:
            return builds[0].report
        return {
            "targets": [{"name": build.name, **build.report} for build in builds],
            "compile_seconds": round(sum(build.report["compile_seconds"] for build in builds), 3),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact; nothing is left at ``path`` if writing fails."""
        write_artifact(Path(path), self.manifest, self.contents)


def convert(
    model: Any,
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

    ``model`` is a file, the name of a built-in network, an ONNX ModelProto or a Relax module. The
    layout options are those of ``relay-layout compile``; ``params`` are weights for a Relay file: a params
    file or arrays by name, ``input_layouts`` and ``output_layouts`` fix layouts at the border by name.
    ``input_dim_orders`` and ``output_dim_orders`` declare the order in which their dimensions lie in memory,
    such as (0, 2, 3, 1), while shapes stay as they are; they go before what the model declares.
    A ``backend`` is asked for each operator which layouts and alignments it accepts. Costs come from
    ``tuning_records``, logs of ``relay-layout tune``, and from the package's own unless
    ``shipped_records`` is false; ``winograd`` false keeps to kernels that round like the direct convolution.
    ``precision`` is what floats are multiplied in: "fp32", "bf16" on processors that have instructions for
    it, "fp16" or "tf32" on CUDA. Raises members of :class:`RelayLayoutError`.
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
    converted, report = _converted(module, request, resolved)
    return Conversion(converted, report.to_dict(), report.plan)


def compile(
    model: Any,
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
    """Compile a model: import, convert layouts, lower with our kernels, build.

    Arguments are those of :func:`convert`, but ``target`` may also be a list of targets, the one that asks
    least of a machine first: the result holds code for each, and where it is loaded the last one that the
    machine can run is taken. ``threads`` is what the kernels are shaped for (all cores by default),
    ``report`` a file ending in .html or .json for what was chosen and why (:mod:`relay_layout.report`),
    ``progress`` is called with one line per stage. Raises :class:`RelayLayoutError`.
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
    module = load_model(model, input_shapes=input_shapes, params=params)
    border, conditions = _border(module["main"]), size_conditions(module["main"])
    specs: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]] = (), ()
    builds, contents, reports = [], [], []
    for resolved in targets:
        say(f"target {resolved.name}: {resolved.description}")
        say("converting layouts")
        converted, conversion = _converted(module, request, resolved)
        converted = canonicalize(converted)
        say(
            f"{conversion.layout_transforms} layout transforms left, "
            f"choice {conversion.solver_status} in {conversion.solver_seconds:.2f} s"
        )
        # The border's layouts are fixed by the request, so they are the same for all targets.
        specs = _specs(converted["main"], border, request)
        lowered = lower(converted, resolved, say)
        planned = plan_memory(lowered.module, resolved)
        left = renamed(calls_left(lowered.calls, called_functions(planned)), conversion.names)
        calls = described_calls(left, lowered.kernels)
        contents.append(Content(build_library(planned, resolved, say), lowered.weights))
        seconds, start = time.perf_counter() - start, time.perf_counter()
        found = _report(conversion, lowered.kernels, _count_operations(lowered.module), seconds)
        builds.append(
            Build(resolved.name, resolved.manifest(), resolved.threads, found | {"calls": plain(calls)})
        )
        if report is not None:
            reports.append(target_report(builds[-1], conversion.plan, calls, planned, contents[-1].weights))
    producer = Producer(relay_layout=__version__, tvm=str(tvm.__version__))
    if report is not None:
        say(f"writing {os.fspath(report)}")
        write_report(report, model_report(model, producer, reports))
    ranks = {spec.name: len(spec.shape) for spec in specs[0]}
    checked = tuple(Condition(text, ranks) for text in conditions)
    return CompiledModel(Manifest(producer, *specs, tuple(builds), checked), tuple(contents))


@dataclass(frozen=True)
class Lowered:
    """Scheduled functions; ``weights`` are further parameters of "main", ``calls`` the calls in it."""

    module: tvm.IRModule
    weights: dict[str, np.ndarray]
    kernels: list[Kernel]
    calls: list[KernelCall]


def lower(module: tvm.IRModule, target: BuildTarget, say: Progress) -> Lowered:
    """Operators to scheduled functions, with the weights taken out as further parameters of "main"."""
    if isinstance(target, CudaTarget):
        check_extents(module, target.name)
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(module)
        module, weights = lift_weights(module)
        group, *fuse = fuse_passes(target)
        grouped = group(module)
        calls = kernel_calls(module, grouped)
        module = tvm.transform.Sequential(fuse)(grouped)
        calls = fused_calls(calls, module)
        say(f"scheduling {_count_functions(module)} functions")
        module, kernels = schedule_functions(module, target)
    return Lowered(module, weights, kernels, calls)


def plan_memory(module: tvm.IRModule, target: BuildTarget) -> tvm.IRModule:
    """The module with memory for its intermediate results, which the caller of "main" passes."""
    with target.tvm_target:
        return tvm.transform.Sequential(memory_passes(workspace=True))(module)


def build_library(module: tvm.IRModule, target: BuildTarget, say: Progress) -> bytes:
    """Generate code for a module of planned memory and link it; the bytes of a shared library."""
    say("generating code")
    on_gpu = isinstance(target, CudaTarget)
    with target.tvm_target, compiler_of(target):
        machine = tvm.transform.Sequential(machine_passes(graph=on_gpu))(with_capabilities(module, target))
        executable = generate(machine, target.tvm_target, CUDA_PIPELINE if on_gpu else PIPELINE)
        code = device_code(executable, target) if isinstance(target, CudaTarget) else {}
    say("linking")
    has_matrices = not on_gpu and target.processor.matrix_registers > 0
    return link_executable(executable, target.foreign_machine, code, matrices=has_matrices)


def _converted(
    module: tvm.IRModule, request: LayoutRequest, target: BuildTarget
) -> tuple[tvm.IRModule, ConversionReport]:
    """The module in inference form and in its layouts, with carried operators if the request names any."""
    carried = names_carried(request.desired_layouts)
    module = canonicalize(module, keep_carried=carried, widened=target.widened_dtypes)
    return convert_layout(module, request, target)


def _in_precision(
    wanted: Sequence[Any], precision: str, resolve: Callable[..., BuildTarget]
) -> list[BuildTarget]:
    """The targets, of which those that do not compute in ``precision`` do in float32 if any other does."""
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
    """Refuse, before any work is done, targets that nothing here links for or that cannot be told apart."""
    if not targets:
        raise TargetError("the list of targets is empty")
    for index, target in enumerate(targets):
        if target.name in [other.name for other in targets[:index]]:
            raise TargetError(f"target {target.name} is given twice")
        triple = target.manifest()["mtriple"]
        if target.foreign_machine and "linux" not in triple:
            raise TargetError(f"target {target.name}: cross linking is for Linux alone, not for {triple}")
        link_command(target.foreign_machine)


def _report(
    conversion: ConversionReport, kernels: Sequence[Kernel], operations: int, seconds: float
) -> dict[str, Any]:
    sources = [kernel.source for kernel in kernels if kernel.workload]
    return {
        "ops": operations,
        **conversion.to_dict(),
        "kernels": {source: sources.count(source) for source in SOURCES},
        "functions": [
            {"name": kernel.name, "operator": kernel.operator, "source": kernel.source} for kernel in kernels
        ],
        "compile_seconds": round(seconds, 3),
    }


@dataclass(frozen=True)
class _Border:
    """What is known of the inputs and the outputs before anything is converted, for each side in order."""

    names: tuple[list[str], list[str]]
    quantization: tuple[list[Quantization | None], list[Quantization | None]]
    letters: Mapping[int, str]


def _border(function: relax.Function) -> _Border:
    """ModelError for a tensor that no caller could pass."""
    names = input_names(function), output_names(function)
    _check_dtypes(names, function)
    return _Border(names, quantized_border(function), dimension_letters(build_graph(function)))


def _check_dtypes(names: tuple[list[str], list[str]], function: relax.Function) -> None:
    results = function.ret_ty
    kinds = results.fields if isinstance(results, relax.TupleType) else [results]
    for role, named, types in (
        ("input", names[0], [parameter.ty for parameter in function.params]),
        ("output", names[1], kinds),
    ):
        for name, kind in zip(named, types, strict=True):
            if str(kind.dtype) not in DTYPES:
                raise ModelError(
                    f"{role} '{name}' is {kind.dtype}, which numpy does not have: let the network take and "
                    "give float32 or float16, and convert inside it"
                )


def _specs(
    function: relax.Function, border: _Border, request: LayoutRequest
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    result = function.body.body.ty
    kinds = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    sides = zip(
        border.names,
        ([parameter.ty for parameter in function.params], kinds),
        (request.input_layouts, request.output_layouts),
        memory_orders(function),
        border.quantization,
        strict=True,
    )
    bounds = size_bounds(function)
    inputs, outputs = (
        tuple(
            _spec(*tensor, layouts, border.letters, bounds)
            for tensor in zip(names, types, orders, quantization, strict=True)
        )
        for names, types, layouts, orders, quantization in sides
    )
    return inputs, outputs


def _spec(
    name: str,
    kind: Any,
    declared: tuple[int, ...],
    quantization: Quantization | None,
    layouts: Mapping[str, str],
    letters: Mapping[int, str],
    bounds: Mapping[str, tuple[int, int | None]],
) -> TensorSpec:
    held = tuple(size if isinstance(size, int) else str(size) for size in shape_of(_Typed(kind)) or ())
    rank = len(held)
    order = declared or tuple(range(rank))
    # The function's types are what lies in memory; the caller sees the model's own dimensions.
    shape = tuple(held[order.index(axis)] for axis in range(rank))
    usual = rank == 4 and order in ((0, 1, 2, 3), channels_last(4))
    layout = layouts.get(name, "".join(letters[4][axis] for axis in order) if usual else "")
    if quantization is not None and quantization.axis is not None and name in layouts:
        quantization = replace(quantization, axis=layout.index(letters[rank][quantization.axis]))
    own = {size: bounds[size] for size in shape if isinstance(size, str) and size in bounds}
    return TensorSpec(name, shape, str(kind.dtype), layout, order, bool(declared), quantization, own)


@dataclass(frozen=True)
class _Typed:
    """Something with a type, for :func:`shape_of`."""

    ty: Any


def _count_functions(module: tvm.IRModule) -> int:
    return sum(1 for _, function in module.functions_items() if not isinstance(function, relax.Function))


def _count_operations(module: tvm.IRModule) -> int:
    """Kernel calls in "main"."""
    return sum(
        1
        for block in module["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
        and str(getattr(binding.value.op, "name", "")) == "relax.call_tir"
    )
