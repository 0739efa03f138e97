"""The kernels that models need, as tasks for a tuner.

Models are converted and lowered as for a compilation, up to where kernels are chosen; each fused function's
block says which workload it computes.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.bodies import alone, bodies_of, without_bodies
from relay_layout.compiler import convert
from relay_layout.lower.memory.weights import lift_weights
from relay_layout.lower.passes import fuse_passes, legalize_passes
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.targets import BuildTarget
from relay_layout.tuning.transforms import chosen_transforms, considered_transforms, sampled
from topi_ext.cuda.annotation import described_kernel
from topi_ext.cuda.workload import (
    DEPTHWISE_CONVOLUTION,
    GEMM_CONVOLUTION,
    DepthwiseConvolution,
    NhwcConvolution,
)
from topi_ext.family import Workload
from topi_ext.schedule.blocks import carried_workload
from topi_ext.tune.task import Task
from topi_ext.workloads.convolution import COLUMNS, PLANES, ROWS, ConvolutionWorkload
from topi_ext.workloads.reading import convolution_from_json
from topi_ext.workloads.separable import SeparableWorkload
from topi_ext.workloads.text import operator_of
from topi_ext.workloads.transform import TransformWorkload

TUNABLE = ("conv2d", "conv3d", GEMM_CONVOLUTION, DEPTHWISE_CONVOLUTION)
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
        for plan in (conversion.plan, *conversion.plans_of_bodies):
            considered += considered_transforms(plan)
            chosen += chosen_transforms(plan)
    transforms = list(dict.fromkeys([*sampled(considered), *chosen]))
    return ModelTasks(as_tasks(counts), list(dict.fromkeys(notes)), transforms)


def module_workloads(module: tvm.IRModule, target: BuildTarget) -> tuple[Counter[Workload], list[str]]:
    """The tunable workloads of a converted module with their uses, and why others were skipped.

    Convolutions that one kernel could compute are there on their own and as one. Those of a body count once.
    """
    found, notes = _main_workloads(without_bodies(module), target)
    for body in bodies_of(module).values():
        inner, skipped = _main_workloads(alone(body, module), target)
        found.update(inner)
        notes += skipped
    return found, notes


def _main_workloads(module: tvm.IRModule, target: BuildTarget) -> tuple[Counter[Workload], list[str]]:
    found: Counter[Workload] = Counter()

    def apart(both: SeparableWorkload) -> bool:
        found[both] += 1
        return False

    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(module)
        module, _ = lift_weights(module)
        module = tvm.transform.Sequential(fuse_passes(target, apart))(module)
    calls = _calls(module["main"])
    notes = []
    for variable, function in module.functions_items():
        uses = calls[str(variable.name_hint)]
        if not uses or not isinstance(function, tirx.PrimFunc):
            continue
        carried = carried_workload(function)
        if carried is None or operator_of(carried[0]) not in TUNABLE:
            continue
        kernel = described_kernel(carried[0])
        workload = convolution_from_json(carried[0]) if kernel is None else kernel[0]
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
    """A workload in a few words, such as ``conv2d 64x56x56 -> 64 3x3 NCHW16c``; both of two convolutions."""
    if isinstance(workload, NhwcConvolution):
        extents = (workload.in_height, workload.in_width)
        sides = zip(extents, workload.kernel, workload.strides, workload.dilation, strict=True)
        return _described(workload, "conv2d", list(sides), f"NHWC {workload.dtype}")
    if isinstance(workload, SeparableWorkload):
        return f"{describe(workload.depthwise)}, then {describe(workload.pointwise)}"
    layouts = workload.data_layout
    if workload.out_layout != workload.data_layout:
        layouts += f" -> {workload.out_layout}"
    if is_dense(workload):
        batch = "" if workload.in_width == 1 else f"{workload.in_width}x"
        return f"dense {batch}{workload.in_channels} -> {workload.out_channels}"
    axis_of = {"D": PLANES, "H": ROWS, "W": COLUMNS}
    letters = workload.spatial if "H" in workload.data_layout else "W"
    axes = [workload.along(axis_of[letter]) for letter in letters]
    return _described(
        workload,
        workload.operator if len(axes) > 1 else "conv1d",
        [(axis.extent, axis.taps, axis.stride, axis.dilation) for axis in axes],
        layouts,
    )


def _described(workload: Workload, operator: str, sides: Sequence[tuple[Any, ...]], layouts: str) -> str:
    """``sides`` are extent, taps, stride and dilation along each."""
    extents, kernel, strides, dilation = zip(*sides, strict=True)
    image = "x".join(map(str, (workload.in_channels, *extents)))
    parts = [f"{operator} {image} -> {workload.out_channels}", "x".join(map(str, kernel))]
    if set(strides) != {1}:
        parts.append(f"stride {_in_short(strides)}")
    if set(dilation) != {1}:
        parts.append(f"dilation {_in_short(dilation)}")
    if isinstance(workload, DepthwiseConvolution) or (
        isinstance(workload, ConvolutionWorkload) and workload.is_depthwise
    ):
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
        *(workload.depth if isinstance(workload, ConvolutionWorkload) else ()),
    )
    return all(isinstance(extent, int) for extent in extents)


def is_dense(workload: ConvolutionWorkload) -> bool:
    """A product of rows by a matrix: 1x1 over one axis, which is that of the rows."""
    return workload.data_layout in ("WC", "NWC") and workload.kernel == (1, 1)


def _in_short(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))


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
