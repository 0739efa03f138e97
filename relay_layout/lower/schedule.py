"""Applies our schedule rules to every function of a module, and records which rule took which function."""

from dataclasses import dataclass

import tvm
from tvm import tirx

from relay_layout.ir import copy_of
from relay_layout.lower.lowering_for import lowering_for
from relay_layout.targets import BuildTarget
from topi_ext.kernel_choice import KernelChoice
from topi_ext.schedule.phases import share_of_products
from topi_ext.schedule.rule import Rule
from topi_ext.workloads.reading import convolution_from_json
from topi_ext.workloads.text import operator_of


@dataclass(frozen=True)
class Kernel:
    """One scheduled function: its operator, its workload, and where its loops come from.

    ``source`` is "tuned" or "modelled" (knobs on record), "default" (knobs from the cost estimate),
    "fallback" (the operator has a kernel, but its rule could not take this case), or "loops" (plain vector
    loops, for operators bound by memory). ``choice`` are the knobs, if it has any. ``share`` is that of the
    workload's products which the operator has: phases of a transposed convolution may lack taps.
    """

    name: str
    operator: str
    workload: str
    source: str
    choice: KernelChoice | None = None
    share: float = 1.0


def schedule_functions(module: tvm.IRModule, target: BuildTarget) -> tuple[tvm.IRModule, list[Kernel]]:
    """The module with every primitive function scheduled, and one record for each."""
    lowering = lowering_for(target)
    rules = lowering.rules()
    updated = copy_of(module)
    kernels = []
    for variable, function in module.functions_items():
        if not isinstance(function, tirx.PrimFunc) or (
            function.attrs and "tirx.is_scheduled" in function.attrs
        ):
            continue
        for rule in rules:
            schedule = rule.apply(function, target.tvm_target, False)
            if schedule is None:
                continue
            scheduled = schedule.mod["main"].with_attr("tirx.is_scheduled", True)
            updated.update_func(variable, lowering.with_codegen_attributes(scheduled))
            kernels.append(_kernel(str(variable.name_hint), function, rule))
            break
    return updated, kernels


def _kernel(name: str, function: tirx.PrimFunc, rule: Rule) -> Kernel:
    """The record of a function that ``rule`` has scheduled."""
    workload, choice = rule.workload(function), rule.choice(function)
    if not workload:
        return Kernel(name, "", "", "loops", choice)
    source = choice.source if choice else "fallback" if rule.is_fallback else "default"
    operator = operator_of(workload)
    share = 1.0
    if operator in ("conv2d", "conv3d"):
        share = share_of_products(function, convolution_from_json(workload))
    return Kernel(name, operator, workload, source, choice, share)
