"""The stages from a module in its layouts to a shared library."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from relay_layout.lower.capabilities import with_capabilities
from relay_layout.lower.cuda_graph import check_extents
from relay_layout.lower.device_code import compiler_of, device_code
from relay_layout.lower.function_calls import function_calls
from relay_layout.lower.generate import generate
from relay_layout.lower.kernel_calls import KernelCall, fused_calls, kernel_calls
from relay_layout.lower.link import link_executable
from relay_layout.lower.passes import fuse_passes, legalize_passes, machine_passes, memory_passes
from relay_layout.lower.schedule import Kernel, schedule_functions
from relay_layout.lower.weights import lift_weights
from relay_layout.targets import BuildTarget, CudaTarget
from topi_ext.build import PIPELINE
from topi_ext.cuda.build import PIPELINE as CUDA_PIPELINE

Progress = Callable[[str], None]
"""Called with one line per stage."""


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


def _count_functions(module: tvm.IRModule) -> int:
    return sum(1 for _, function in module.functions_items() if not isinstance(function, relax.Function))


def count_operations(module: tvm.IRModule) -> int:
    """Kernel calls in "main"."""
    return len(function_calls(module["main"]))
