"""The kernels that models need, as tasks for a tuner."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.compiler import convert
from relay_layout.lower.passes import fuse_passes, legalize_passes
from relay_layout.lower.weights import lift_weights
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.targets import BuildTarget
from relay_layout.tuning.transforms import chosen_transforms, considered_transforms, sampled
from topi_ext.cuda.knobs import product_of
from topi_ext.cuda.workload import GEMM_CONVOLUTION, GemmConvolution
from topi_ext.family import Workload
from topi_ext.schedule.blocks import annotated_block, open_schedule
from topi_ext.tune.task import Task
from topi_ext.workload import ConvolutionWorkload, TransformWorkload, operator_of

TUNABLE = ("conv2d", GEMM_CONVOLUTION)
"""Operators of workloads whose kernels have knobs."""


@dataclass(frozen=True)
class ModelTasks:
    """Tasks, those that occur most in total work first, and a line for each kernel that cannot be tuned.

    ``transforms`` are the layout transforms that tell what others cost, and those that are left to run.
    """

    tasks: list[Task]
    notes: list[str]
    transforms: list[TransformWorkload] = field(default_factory=list)


def model_tasks(
    models: Sequence[Any], target: BuildTarget, options: Mapping[str, Any] | None = None
) -> ModelTasks:
    """The tasks of several models together, each kernel once with the number of its uses.

    ``options`` are the layout options of :func:`relay_layout.convert`: layouts are chosen as compilation
    chooses them. Raises members of :class:`RelayLayoutError`.
    """
    counts: Counter[Workload] = Counter()
    notes: list[str] = []
    considered: list[TransformWorkload] = []
    chosen: list[TransformWorkload] = []
    for model in models:
        conversion = convert(model, **{**(options or {}), "target": target})
        found, skipped = module_workloads(canonicalize(conversion.module), target)
        counts.update(found)
        name = model if isinstance(model, str | os.PathLike) else "a model"
        notes += [f"{name}: {note}" for note in skipped]
        considered += considered_transforms(conversion.plan)
        chosen += chosen_transforms(conversion.plan)
    transforms = list(dict.fromkeys([*sampled(considered), *chosen]))
    return ModelTasks(as_tasks(counts), list(dict.fromkeys(notes)), transforms)


def module_workloads(module: tvm.IRModule, target: BuildTarget) -> tuple[Counter[Workload], list[str]]:
    """The tunable workloads of a converted module with their uses, and why others were skipped."""
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(module)
        module, _ = lift_weights(module)
        module = tvm.transform.Sequential(fuse_passes(target))(module)
    calls = _calls(module["main"])
    found: Counter[Workload] = Counter()
    notes = []
    for variable, function in module.functions_items():
        uses = calls[str(variable.name_hint)]
        if not uses or not isinstance(function, tirx.PrimFunc):
            continue
        annotated = annotated_block(open_schedule(function))
        if annotated is None or operator_of(annotated[1]) not in TUNABLE:
            if annotated is not None and operator_of(annotated[1]) == "conv3d":
                notes.append(f"{variable.name_hint} is of three dimensions and is not tuned")
            continue
        product = product_of(annotated[1])
        workload = ConvolutionWorkload.from_json(annotated[1]) if product is None else product[0]
        if is_static(workload):
            found[workload] += uses
        else:
            notes.append(f"{variable.name_hint} has symbolic extents and is not tuned")
    return found, notes


def as_tasks(counts: Mapping[Workload, int]) -> list[Task]:
    """Tasks with names for people, most work first."""
    ordered = sorted(counts, key=lambda workload: (-workload.macs * counts[workload], workload.to_json()))
    return [Task(describe(workload), workload, counts[workload]) for workload in ordered]


def describe(workload: Workload) -> str:
    """A workload in a few words, such as ``conv2d 64x56x56 -> 64 3x3 NCHW16c``."""
    if isinstance(workload, GemmConvolution):
        return _describe(workload, f"NHWC {workload.dtype}")
    layouts = workload.data_layout
    if workload.out_layout != workload.data_layout:
        layouts += f" -> {workload.out_layout}"
    if "H" not in workload.data_layout:
        batch = "" if workload.in_width == 1 else f"{workload.in_width}x"
        return f"dense {batch}{workload.in_channels} -> {workload.out_channels}"
    return _describe(workload, layouts)


def _describe(workload: Workload, layouts: str) -> str:
    image = f"{workload.in_channels}x{workload.in_height}x{workload.in_width}"
    name = "conv2d" if isinstance(workload, GemmConvolution) else workload.operator
    parts = [f"{name} {image} -> {workload.out_channels}", "x".join(map(str, workload.kernel))]
    if workload.strides != (1, 1):
        parts.append(f"stride {_pair(workload.strides)}")
    if workload.dilation != (1, 1):
        parts.append(f"dilation {_pair(workload.dilation)}")
    if isinstance(workload, ConvolutionWorkload) and workload.is_depthwise:
        parts.append("depthwise")
    elif workload.groups > 1:
        parts.append(f"{workload.groups} groups")
    if workload.batch != 1:
        parts.append(f"batch {workload.batch}")
    return " ".join([*parts, layouts])


def is_static(workload: Workload) -> bool:
    """Are all extents numbers?"""
    extents: Iterable[Any] = (
        workload.batch,
        workload.in_channels,
        workload.out_channels,
        workload.in_height,
        workload.in_width,
        *workload.kernel,
    )
    return all(isinstance(extent, int) for extent in extents)


def _pair(values: tuple[int, int]) -> str:
    return str(values[0]) if values[0] == values[1] else f"{values[0]}x{values[1]}"


def _calls(function: relax.Function) -> Counter[str]:
    """How often the function calls each kernel."""
    calls: Counter[str] = Counter()

    def visit(expression: relax.Expr) -> None:
        if isinstance(expression, relax.Call) and expression.args:
            callee = expression.args[0]
            if isinstance(callee, tvm.ir.GlobalVar):
                calls[str(callee.name_hint)] += 1

    relax.analysis.post_order_visit(function, visit)
    return calls


__all__ = ["ModelTasks", "as_tasks", "describe", "is_static", "model_tasks", "module_workloads"]
