"""The passes from operators to scheduled functions, and the whole pipeline for ``tvm.compile``."""

from typing import Any

import tvm
from tvm import relax
from tvm.s_tir import dlight

from relay_layout.canonicalize import canonicalize
from relay_layout.lower.legalize import legalization_map
from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.transform import LayoutRequest, convert_layout
from topi_ext.schedule import cpu_rules


def legalize_passes() -> list[tvm.transform.Pass]:
    """Operators to loops, each operator a function of its own."""
    return [
        relax.backend.DispatchSampling(),
        relax.backend.DispatchSortScan(),
        relax.transform.LegalizeOps(legalization_map()),
        relax.transform.AnnotateTIROpPattern(),
    ]


def fuse_and_schedule_passes() -> list[tvm.transform.Pass]:
    """Functions fused with their elementwise neighbours, then given loops by our rules."""
    return [
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
        # Before scheduling: a reshape is recognised by its unscheduled loops.
        relax.transform.RewriteDataflowReshape(),
        dlight.ApplyDefaultSchedule(*cpu_rules()),
    ]


def lower_passes() -> list[tvm.transform.Pass]:
    """From memory planning to virtual machine code, as stock TVM does it."""
    return [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]


def pipeline(target: Any = "native", *, desired_layout: str = "auto") -> tvm.transform.Pass:
    """A ``relax_pipeline`` for stock TVM: ``tvm.compile(mod, target, relax_pipeline=pipeline(target))``.

    Folds batch norm, converts layouts for ``target``, lowers with our kernels and schedules.
    """
    resolved: BuildTarget = resolve_target(target)
    request = LayoutRequest.parse(desired_layout)

    @tvm.transform.module_pass(opt_level=0, name="relay_layout.pipeline")
    def run(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        del context
        module, _ = convert_layout(canonicalize(module), request, resolved)
        with resolved.tvm_target:
            return tvm.transform.Sequential(
                [*legalize_passes(), *fuse_and_schedule_passes(), *lower_passes()]
            )(module)

    return run
