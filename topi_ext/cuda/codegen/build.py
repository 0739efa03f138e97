"""Code generation for scheduled CUDA functions: TVM's passes, with asynchronous copies and fragments in
registers.
"""

from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.pipeline import default_s_tir_pipeline

from topi_ext.codegen.differences import keep_differences
from topi_ext.codegen.falling_places import rising_places
from topi_ext.codegen.infinite_extremes import begin_with_infinity
from topi_ext.codegen.let_bindings import flatten_bindings
from topi_ext.cuda.codegen.approximations import approximate, approximate_functions
from topi_ext.cuda.codegen.brain_constants import cast_infinities
from topi_ext.cuda.codegen.byte_vectors import pack_bytes
from topi_ext.cuda.codegen.copy_order import order_copies
from topi_ext.cuda.codegen.dependent_launch import launch_early, wait_for_kernel_before
from topi_ext.cuda.codegen.fragments import lower_fragments
from topi_ext.cuda.codegen.nvcc import Cubin, compile_cubin, digest
from topi_ext.cuda.codegen.scalar_lanes import unroll_scalars
from topi_ext.cuda.codegen.shared_views import match_pointers
from topi_ext.cuda.codegen.swizzle import swizzle_tiles
from topi_ext.cuda.codegen.warpgroups import order_warpgroups
from topi_ext.cuda.codegen.wide_copies import widen_copies
from topi_ext.cuda.codegen.zero_copies import copy_or_zeros

PIPELINE = "topi_ext.cuda"
"""For ``relax.build(..., tir_pipeline=PIPELINE)``."""


def _pipeline() -> tuple[Any, Any, Any]:
    passes, finalize_host, finalize_device = default_s_tir_pipeline()
    approximated: set[str] = set()

    def lower(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        approximated.update(approximate_functions(module))
        # Offsets must not hide behind variables from lower_fragments; nvcc finds common terms itself.
        config = {
            **dict(context.config),
            "tirx.use_async_copy": True,
            "tirx.disable_cse_tir": True,
        }
        with tvm.transform.PassContext(opt_level=context.opt_level, config=config):
            # TVM knows what threads reduce together by what that begins with.
            together = [s_tir.transform.CanonicalizeLoop(), s_tir.transform.LowerCrossThreadReduction()]
            exact = [keep_differences(), begin_with_infinity()]
            ours = [*exact, flatten_bindings(), rising_places(), unroll_scalars(), launch_early()]
            return passes(tvm.transform.Sequential([*together, *ours])(module))

    def finish() -> tvm.transform.Pass:
        return tvm.transform.Sequential(
            [approximate(approximated), *device_passes(), finalize_device(), cast_infinities()]
        )

    return tvm.transform.module_pass(lower, 0, "topi_ext.cuda"), finalize_host, finish


def device_passes() -> list[tvm.transform.Pass]:
    """Our own passes over device functions, between TVM's."""
    ours = [lower_fragments(), order_warpgroups(), widen_copies(), swizzle_tiles(), order_copies()]
    return [*ours, copy_or_zeros(), match_pointers(), pack_bytes(), wait_for_kernel_before()]


tirx.register_tir_pipeline(PIPELINE, _pipeline)


def machine_code_of(built: Any, arch: str) -> dict[str, Cubin]:
    """The machine code of every CUDA module within what TVM built, by the digest of its source."""
    found: dict[str, Cubin] = {}
    pending = [built.mod]
    while pending:
        module = pending.pop()
        pending += list(module.imports)
        if module.kind == "cuda":
            source = str(module.inspect_source("cuda"))
            found[digest(source)] = compile_cubin(source, arch)
    return found
