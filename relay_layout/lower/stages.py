"""The stages from a module in its layouts to a shared library."""

from collections.abc import Callable

import tvm
from tvm import relax

from relay_layout.lower.body_lowering import Lowered, lower_each
from relay_layout.lower.fusion.function_calls import function_calls
from relay_layout.lower.kernel_calls import fused_calls, kernel_calls
from relay_layout.lower.library.generate import generate
from relay_layout.lower.library.link import link_executable
from relay_layout.lower.lowering_for import lowering_for
from relay_layout.lower.memory.weights import lift_weights
from relay_layout.lower.memory.workspace import lift_workspace
from relay_layout.lower.passes import fuse_passes, legalize_passes, machine_passes, memory_passes
from relay_layout.lower.schedule import schedule_functions
from relay_layout.targets import BuildTarget
from topi_ext.machine.capabilities import with_capabilities

Progress = Callable[[str], None]
"""Called with one line per stage."""


def lower(
    module: tvm.IRModule, target: BuildTarget, say: Progress = lambda line: None, *, lift: bool = True
) -> Lowered:
    """Lower operators to scheduled functions.

    Weights become further parameters of "main" unless ``lift`` is false.
    """
    lowering_for(target).check(module)
    return lower_each(module, lambda one: _lower(one, target, say, lift=lift))


def _lower(module: tvm.IRModule, target: BuildTarget, say: Progress, *, lift: bool) -> Lowered:
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(module)
        module, weights = lift_weights(module) if lift else (module, {})
        group, *fuse = fuse_passes(target)
        grouped = group(module)
        calls = kernel_calls(module, grouped)
        module = tvm.transform.Sequential(fuse)(grouped)
        calls = fused_calls(calls, module)
        say(f"scheduling {_count_functions(module)} functions")
        module, kernels = schedule_functions(module, target)
    return Lowered(module, weights, kernels, calls)


def plan_memory(module: tvm.IRModule, target: BuildTarget, *, lift: bool = True) -> tvm.IRModule:
    """The module with planned memory for intermediate results.

    The caller of "main" passes that memory unless ``lift`` is false.
    """
    with target.tvm_target:
        module = tvm.transform.Sequential(memory_passes(target))(module)
        return lift_workspace(module) if lift else module


def build_library(module: tvm.IRModule, target: BuildTarget, say: Progress) -> bytes:
    """Generate code for a module whose memory is planned, and link it; returns the shared library's bytes."""
    say("generating code")
    lowering = lowering_for(target)
    with target.tvm_target, lowering.codegen_context():
        passes = [*lowering.launch_passes(), *machine_passes()]
        machine = tvm.transform.Sequential(passes)(with_capabilities(module, target.tvm_target))
        executable = generate(machine, target.tvm_target, lowering.tir_pipeline)
        code = lowering.device_code(executable)
    say("linking")
    return link_executable(executable, target.cross_triple, code, amx=lowering.uses_amx)


def _count_functions(module: tvm.IRModule) -> int:
    return sum(1 for _, function in module.functions_items() if not isinstance(function, relax.Function))


def count_operations(module: tvm.IRModule) -> int:
    """The number of kernel calls in "main"."""
    return len(function_calls(module["main"]))
