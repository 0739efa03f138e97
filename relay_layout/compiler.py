"""The whole way from a model to something that runs."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout import __version__
from relay_layout.artifact import Build, Content, Manifest, Producer, TensorSpec, write_artifact
from relay_layout.border import input_names, output_names
from relay_layout.canonicalize import canonicalize
from relay_layout.errors import TargetError
from relay_layout.frontend import Params, load_model
from relay_layout.host import architecture
from relay_layout.ir import shape_of
from relay_layout.lower.device_code import compiler_of, machine_code_of
from relay_layout.lower.link import link_command, link_executable
from relay_layout.lower.passes import fuse_passes, legalize_passes, lower_passes
from relay_layout.lower.schedule import Kernel, schedule_functions
from relay_layout.lower.weights import lift_weights
from relay_layout.plan import LayoutPlan
from relay_layout.relay.conventions import names_carried
from relay_layout.request import LayoutRequest
from relay_layout.targets import BuildTarget, CudaTarget, resolve_target
from relay_layout.targets.backend import LayoutBackend
from relay_layout.transform import ConversionReport, convert_layout
from topi_ext.build import PIPELINE
from topi_ext.cuda.build import PIPELINE as CUDA_PIPELINE

Progress = Callable[[str], None]

SOURCES = ("tuned", "inherited", "modelled", "default", "fallback")
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
    A ``backend`` is asked for each operator which layouts and alignments it accepts. Costs come from
    ``tuning_records``, logs of ``relay-layout tune``, and from the package's own unless
    ``shipped_records`` is false; ``winograd`` false keeps to kernels that round like the direct convolution.
    ``precision`` is what CUDA targets compute in, "fp16" or "fp32".
    Raises members of :class:`RelayLayoutError`.
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
    threads: int | None = None,
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    shipped_records: bool = True,
    winograd: bool = True,
    precision: str = "fp32",
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model: import, convert layouts, lower with our kernels, build.

    Arguments are those of :func:`convert`, but ``target`` may also be a list of targets, the one that asks
    least of a machine first: the result holds code for each, and where it is loaded the last one that the
    machine can run is taken. ``threads`` is what the kernels are shaped for (all cores by default),
    ``progress`` is called with one line per stage. Raises :class:`RelayLayoutError`.
    """
    say = progress or (lambda line: None)
    start = time.perf_counter()
    request = LayoutRequest.parse(
        desired_layout,
        desired_layout_ops,
        desired_layouts,
        skip_layers,
        input_layouts=input_layouts,
        output_layouts=output_layouts,
    )
    targets = [
        resolve_target(
            wanted,
            threads=threads,
            tuning_records=tuning_records,
            shipped_records=shipped_records,
            winograd=winograd,
            precision=precision,
        )
        for wanted in (target if isinstance(target, list | tuple) else [target])
    ]
    _check_targets(targets)
    link_command()
    module = load_model(model, input_shapes=input_shapes, params=params)
    names = input_names(module["main"]), output_names(module["main"])
    specs: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]] = (), ()
    builds, contents = [], []
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
        specs = _specs(converted["main"], names, request)
        lowered, weights, kernels = lower(converted, resolved, say)
        operations = _count_operations(lowered)
        contents.append(Content(build_library(lowered, resolved, say), weights))
        seconds, start = time.perf_counter() - start, time.perf_counter()
        report = _report(conversion, kernels, operations, seconds)
        builds.append(Build(resolved.name, resolved.manifest(), resolved.threads, report))
    producer = Producer(relay_layout=__version__, tvm=str(tvm.__version__))
    return CompiledModel(Manifest(producer, *specs, tuple(builds)), tuple(contents))


def lower(
    module: tvm.IRModule, target: BuildTarget, say: Progress
) -> tuple[tvm.IRModule, dict[str, np.ndarray], list[Kernel]]:
    """Operators to scheduled functions, with the weights taken out as further parameters of "main"."""
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(module)
        module, weights = lift_weights(module)
        module = tvm.transform.Sequential(fuse_passes(target))(module)
        say(f"scheduling {_count_functions(module)} functions")
        module, kernels = schedule_functions(module, target)
    return module, weights, kernels


def build_library(module: tvm.IRModule, target: BuildTarget, say: Progress) -> bytes:
    """Generate code and link it; the bytes of a shared library."""
    say("generating code")
    on_gpu = isinstance(target, CudaTarget)
    with target.tvm_target, compiler_of(target):
        executable = relax.build(
            module,
            target.tvm_target,
            relax_pipeline=tvm.transform.Sequential(lower_passes(workspace=True, graph=on_gpu)),
            tir_pipeline=CUDA_PIPELINE if on_gpu else PIPELINE,
        )
        code = machine_code_of(executable, target) if isinstance(target, CudaTarget) else {}
    say("linking")
    return link_executable(executable, code)


def _converted(
    module: tvm.IRModule, request: LayoutRequest, target: BuildTarget
) -> tuple[tvm.IRModule, ConversionReport]:
    """The module in inference form and in its layouts, with carried operators if the request names any."""
    module = canonicalize(module, keep_carried=names_carried(request.desired_layouts))
    return convert_layout(module, request, target)


def _check_targets(targets: Sequence[BuildTarget]) -> None:
    """Refuse, before any work is done, targets that need a cross linker or cannot be told apart."""
    if not targets:
        raise TargetError("the list of targets is empty")
    for index, target in enumerate(targets):
        if target.name in [other.name for other in targets[:index]]:
            raise TargetError(f"target {target.name} is given twice")
        if target.architecture != architecture():
            raise TargetError(
                f"target {target.name}: this machine is {architecture()} and cannot link for "
                f"{target.architecture} yet; compile on the machine that is to run it"
            )


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


def _specs(
    function: relax.Function, names: tuple[list[str], list[str]], request: LayoutRequest
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    result = function.body.body.ty
    kinds = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    inputs = [
        _spec(name, parameter.ty, request.input_layouts)
        for name, parameter in zip(names[0], function.params, strict=True)
    ]
    outputs = [_spec(name, kind, request.output_layouts) for name, kind in zip(names[1], kinds, strict=True)]
    return tuple(inputs), tuple(outputs)


def _spec(name: str, kind: Any, layouts: Mapping[str, str]) -> TensorSpec:
    extents = shape_of(_Typed(kind)) or ()
    shape = tuple(extent if isinstance(extent, int) else str(extent) for extent in extents)
    order = tuple(range(len(shape)))
    return TensorSpec(name, shape, str(kind.dtype), layouts.get(name, {4: "NCHW"}.get(len(shape), "")), order)


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
