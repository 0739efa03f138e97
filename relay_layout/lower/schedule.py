"""Apply our schedule rules to every function of a module, and remember which rule took which."""

from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.s_tir.dlight import ScheduleRule

from relay_layout.ir import copy_of
from relay_layout.targets import BuildTarget, CudaTarget
from topi_ext.chooser import KernelChoice
from topi_ext.cuda.annotation import described_kernel
from topi_ext.cuda.approximations import APPROXIMATE
from topi_ext.schedule.blocks import carried_workload
from topi_ext.schedule.cuda import rules as cuda
from topi_ext.schedule.rules import Convolution, LoopNest, cpu_rules
from topi_ext.workload import operator_of


@dataclass(frozen=True)
class Kernel:
    """One scheduled function: its operator, what it computes, and where its loops come from.

    ``source`` is "tuned" or "modelled" (knobs on record), "default" (knobs from the cost estimate),
    "fallback" (an operator with a kernel whose rule could not take this case), or "loops" (bound by memory:
    plain vector loops). ``choice`` are the knobs, where it has any.
    """

    name: str
    operator: str
    workload: str
    source: str
    choice: KernelChoice | None = None


_ROUNDED = ("fp16", "tf32")
"""Precisions in which a network rounds its tensors, or what it multiplies, to ten bits."""


def schedule_functions(module: tvm.IRModule, target: BuildTarget) -> tuple[tvm.IRModule, list[Kernel]]:
    """The module with every primitive function scheduled, and one record for each."""
    rules = cuda.cuda_rules() if isinstance(target, CudaTarget) else cpu_rules(target.kernels)
    updated = copy_of(module)
    kernels = []
    for variable, function in module.functions_items():
        if not isinstance(function, tirx.PrimFunc) or (
            function.attrs and "tirx.is_scheduled" in function.attrs
        ):
            continue
        found = carried_workload(function)
        workload = found[0] if found else ""
        for rule in rules:
            schedule = rule.apply(function, target.tvm_target, False)
            if schedule is None:
                continue
            scheduled = schedule.mod["main"].with_attr("tirx.is_scheduled", True)
            if isinstance(target, CudaTarget) and target.precision in _ROUNDED:
                scheduled = scheduled.with_attr(APPROXIMATE, True)
            updated.update_func(variable, scheduled)
            choice = rule.choice(function) if isinstance(rule, Convolution) else None
            if isinstance(rule, cuda.Guarded) and (kernel := described_kernel(workload)) is not None:
                workload = kernel[0].to_json()
                choice = target.kernels.choose(kernel[0]) if isinstance(rule.rule, cuda.Convolution) else None
            source = "loops" if not workload else _source(rule, choice)
            operator = operator_of(workload) if workload else ""
            kernels.append(Kernel(str(variable.name_hint), operator, workload, source, choice))
            break
    return updated, kernels


def _source(rule: ScheduleRule, choice: KernelChoice | None) -> str:
    if choice is not None:
        return choice.source
    return "fallback" if isinstance(rule, LoopNest | cuda.Guarded) else "default"
