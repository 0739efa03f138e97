"""``relay_layout.pipeline``: our conversion and lowering as a pipeline of stock TVM."""

import tvm

from relay_layout.layout_request import LayoutRequest
from relay_layout.lower.passes import machine_passes
from relay_layout.lower.stages import lower, plan_memory
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.conversion import convert_network
from relay_layout.targets import TargetLike, require_cpu, resolve_target

_FOR_CPUS = (
    "pipeline() is for CPUs, whose code stock TVM generates; compile for a GPU with relay_layout.compile"
)


def pipeline(target: TargetLike = "native", *, desired_layout: str = "auto") -> tvm.transform.Pass:
    """A ``relax_pipeline`` for stock TVM.

    ``tvm.compile(mod, target, relax_pipeline=pipeline(target), tir_pipeline="topi_ext")``: without the second
    one, accumulators of large tiles are kept on the heap, and kernels are slower.

    Folds batch norm, converts layouts for ``target``, lowers with our kernels and schedules, as
    :func:`relay_layout.compile` does; weights stay in the module, and "main" allocates its memory.
    TargetError for a target that is not known or is a GPU.
    """
    resolved = require_cpu(resolve_target(target), _FOR_CPUS)
    request = LayoutRequest.parse(desired_layout)

    def run(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        converted, _ = convert_network(module, request, resolved)
        lowered = lower(canonicalize(converted), resolved, lift=False)
        planned = plan_memory(lowered.module, resolved, lift=False)
        with resolved.tvm_target:
            return tvm.transform.Sequential(machine_passes())(planned)

    return tvm.transform.module_pass(run, opt_level=0, name="relay_layout.pipeline")
