"""The whole way from a model to something that runs."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout import __version__
from relay_layout.artifact import Manifest, Producer, TensorSpec, write_artifact
from relay_layout.border import input_names, output_names
from relay_layout.canonicalize import canonicalize
from relay_layout.errors import TargetError
from relay_layout.frontend import Params, load_model
from relay_layout.host import architecture
from relay_layout.ir import shape_of
from relay_layout.lower.link import link_command, link_executable
from relay_layout.lower.passes import fuse_passes, legalize_passes, lower_passes
from relay_layout.lower.schedule import Kernel, schedule_functions
from relay_layout.lower.weights import lift_weights
from relay_layout.relay.conventions import names_carried
from relay_layout.request import LayoutRequest
from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.transform import ConversionReport, convert_layout
from topi_ext.build import PIPELINE

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Conversion:
    """A converted module and the report of what was done to it."""

    module: tvm.IRModule
    report: dict[str, Any]


@dataclass(frozen=True)
class CompiledModel:
    """A built network: shared library, weights, and the manifest that describes both.

    ``report`` has the fields that ``relay-layout compile --json`` prints.
    """

    manifest: Manifest
    library: bytes
    weights: Mapping[str, np.ndarray]
    report: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact; nothing is left at ``path`` if writing fails."""
        write_artifact(Path(path), self.manifest, self.library, self.weights)


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
    threads: int | None = None,
) -> Conversion:
    """Load a model and convert its layouts; nothing is compiled.

    ``model`` is a file, the name of a built-in network, an ONNX ModelProto or a Relax module. The
    layout options are those of ``relay-layout compile``; ``params`` are weights for a Relay file: a params
    file or arrays by name, ``input_layouts`` and ``output_layouts`` fix layouts at the border by name.
    Raises members of :class:`RelayLayoutError`.
    """
    request = LayoutRequest.parse(
        desired_layout,
        desired_layout_ops,
        desired_layouts,
        skip_layers,
        input_layouts=input_layouts,
        output_layouts=output_layouts,
    )
    resolved = resolve_target(target, threads=threads)
    module = load_model(model, input_shapes=input_shapes, params=params)
    converted, report = _converted(module, request, resolved)
    return Conversion(converted, report.to_dict())


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
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model: import, convert layouts, lower with our kernels, build.

    Arguments are those of :func:`convert`; ``threads`` is what the kernels are shaped for (all cores
    by default), ``progress`` is called with one line per stage. Raises :class:`RelayLayoutError`.
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
    resolved = resolve_target(target, threads=threads)
    _check_host(resolved)
    link_command()
    say(f"target {resolved.name}: {resolved.description}")
    module = load_model(model, input_shapes=input_shapes, params=params)
    names = input_names(module["main"]), output_names(module["main"])
    say("converting layouts")
    module, conversion = _converted(module, request, resolved)
    module = canonicalize(module)
    say(
        f"{conversion.layout_transforms} layout transforms left, "
        f"choice {conversion.solver_status} in {conversion.solver_seconds:.2f} s"
    )
    inputs, outputs = _specs(module["main"], names, request)
    module, weights, kernels = lower(module, resolved, say)
    operations = _count_operations(module)
    library = build_library(module, resolved, say)
    seconds = time.perf_counter() - start
    report = _report(conversion, kernels, operations, seconds)
    manifest = Manifest(
        producer=Producer(relay_layout=__version__, tvm=str(tvm.__version__)),
        target=resolved.manifest(),
        inputs=inputs,
        outputs=outputs,
        num_threads_hint=resolved.threads,
        report=report,
    )
    return CompiledModel(manifest, library, weights, report)


def lower(
    module: tvm.IRModule, target: BuildTarget, say: Progress
) -> tuple[tvm.IRModule, dict[str, np.ndarray], list[Kernel]]:
    """Operators to scheduled functions, with the weights taken out as further parameters of "main"."""
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(module)
        module, weights = lift_weights(module)
        module = tvm.transform.Sequential(fuse_passes())(module)
        say(f"scheduling {_count_functions(module)} functions")
        module, kernels = schedule_functions(module, target)
    return module, weights, kernels


def build_library(module: tvm.IRModule, target: BuildTarget, say: Progress) -> bytes:
    """Generate code and link it; the bytes of a shared library."""
    say("generating code")
    with target.tvm_target:
        executable = relax.build(
            module,
            target.tvm_target,
            relax_pipeline=tvm.transform.Sequential(lower_passes()),
            tir_pipeline=PIPELINE,
        )
    say("linking")
    return link_executable(executable)


def _converted(
    module: tvm.IRModule, request: LayoutRequest, target: BuildTarget
) -> tuple[tvm.IRModule, ConversionReport]:
    """The module in inference form and in its layouts, with carried operators if the request names any."""
    module = canonicalize(module, keep_carried=names_carried(request.desired_layouts))
    return convert_layout(module, request, target)


def _check_host(target: BuildTarget) -> None:
    """Refuse targets that need a cross linker, before any work is done."""
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
        "kernels": {source: sources.count(source) for source in ("tuned", "default", "fallback")},
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
