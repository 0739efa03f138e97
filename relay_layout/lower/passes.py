"""The passes from operators to scheduled functions, and the whole pipeline for ``tvm.compile``."""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from relay_layout.lower.apart import keep_parts_apart
from relay_layout.lower.attention import join_attention
from relay_layout.lower.chains import keep_chains_short
from relay_layout.lower.common_legalizers import Legalizer
from relay_layout.lower.cuda_graph import capture
from relay_layout.lower.cuda_integers import integer_kernel
from relay_layout.lower.cuda_legalize import cuda_legalization_map
from relay_layout.lower.definitions import define_before_use
from relay_layout.lower.growing import keep_growing_apart
from relay_layout.lower.half import narrow_intermediates
from relay_layout.lower.in_place import compute_in_place
from relay_layout.lower.integers import lower_integers
from relay_layout.lower.introduced import keep_introducing_apart
from relay_layout.lower.legalize import legalization_map
from relay_layout.lower.lookups import fuse_lookups
from relay_layout.lower.parts import merge_parts
from relay_layout.lower.pixel_rows import by_pixel_rows
from relay_layout.lower.recurrent_layers import unroll_layers
from relay_layout.lower.scattering import scatter_rows
from relay_layout.lower.schedule import schedule_functions
from relay_layout.lower.separable import Decide, has_separable, is_faster, join_separable
from relay_layout.lower.views import merge_views
from relay_layout.lower.workspace import lift_workspace
from relay_layout.request import LayoutRequest
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.targets import BuildTarget, CudaTarget, resolve_target


def legalize_passes(target: BuildTarget) -> list[tvm.transform.Pass]:
    """Operators to loops, each operator a function of its own."""
    on_gpu = isinstance(target, CudaTarget)
    integers = integer_kernel(target) if isinstance(target, CudaTarget) else target.kernels.processor
    return [
        _pass(unroll_layers, target),
        *([] if on_gpu else [_pass(by_pixel_rows, target)]),
        _pass(lower_integers, integers),
        _pass(merge_views),
        _pass(merge_parts),
        *([] if on_gpu else [_pass(join_attention), _pass(scatter_rows)]),
        relax.backend.DispatchSampling(),
        *([relax.backend.DispatchSortScan()] if on_gpu else []),
        relax.transform.LegalizeOps(_legalizers(target)),
        # Sorts that no kernel of ours took.
        *([] if on_gpu else [relax.backend.DispatchSortScan()]),
        relax.transform.AnnotateTIROpPattern(),
        _pass(fuse_lookups),
        _pass(keep_growing_apart),
        _pass(keep_introducing_apart),
        _pass(keep_parts_apart),
        _pass(keep_chains_short),
    ]


def _pass(rewrite: Callable[..., tvm.IRModule], *options: Any, **named: Any) -> tvm.transform.Pass:
    """What ``rewrite`` makes of a module, with options, as a pass of its name."""
    return tvm.transform.module_pass(
        lambda module, _: rewrite(module, *options, **named), 0, rewrite.__name__
    )


def _legalizers(target: BuildTarget) -> dict[str, Legalizer]:
    return cuda_legalization_map(target) if isinstance(target, CudaTarget) else legalization_map(target)


def fuse_passes(target: BuildTarget, join: Decide | None = None) -> list[tvm.transform.Pass]:
    """Functions fused with their elementwise neighbours; the first pass makes the groups.

    ``join`` says which depthwise convolutions are fused with the pointwise ones of their results, by default
    those whose kernel is then the faster.
    """
    decide = join or is_faster(target.kernels)
    joins = not isinstance(target, CudaTarget) and has_separable(target.processor)
    groups = [
        relax.transform.FuseOps(),
        _pass(define_before_use),
        *([_pass(join_separable, decide)] if joins else []),
    ]
    return [
        tvm.transform.Sequential(groups),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
        # Before scheduling: a reshape is recognised by its unscheduled loops.
        relax.transform.RewriteDataflowReshape(),
        *([_pass(narrow_intermediates, target.stored)] if target.stored != "float32" else []),
    ]


def lower_passes(*, workspace: bool = False) -> list[tvm.transform.Pass]:
    """From memory planning to virtual machine code, as stock TVM does it.

    With ``workspace`` the caller of "main" passes the memory too; see :func:`lift_workspace`.
    """
    return [*memory_passes(workspace=workspace), *machine_passes()]


def memory_passes(*, workspace: bool = False) -> list[tvm.transform.Pass]:
    """Memory planned and allocated; ``workspace`` as for :func:`lower_passes`."""
    return [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        relax.transform.LowerAllocTensor(),
        _pass(compute_in_place),
        *([_pass(lift_workspace)] if workspace else []),
    ]


def machine_passes(*, graph: bool = False) -> list[tvm.transform.Pass]:
    """Functions of planned memory to virtual machine code.

    With ``graph`` the launches of "main" become one CUDA graph, for callers that pass the same memory in
    every call.
    """
    return [
        *([_pass(capture)] if graph else []),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]


def pipeline(target: Any = "native", *, desired_layout: str = "auto") -> tvm.transform.Pass:
    """A ``relax_pipeline`` for stock TVM.

    ``tvm.compile(mod, target, relax_pipeline=pipeline(target), tir_pipeline="topi_ext")``: without the second
    one, accumulators of large tiles are kept on the heap, and kernels are slower.

    Folds batch norm, converts layouts for ``target``, lowers with our kernels and schedules.
    """
    resolved: BuildTarget = resolve_target(target)
    request = LayoutRequest.parse(desired_layout)

    def run(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        del context
        module = canonicalize(module, widened=resolved.widened_dtypes)
        module, _ = convert_layout(module, request, resolved)
        with resolved.tvm_target:
            module = tvm.transform.Sequential([*legalize_passes(resolved), *fuse_passes(resolved)])(module)
            module, _ = schedule_functions(module, resolved)
            return tvm.transform.Sequential(lower_passes())(module)

    return tvm.transform.module_pass(run, opt_level=0, name="relay_layout.pipeline")
