"""Lowering for GPUs: CUDA kernels, which "main" launches as one CUDA graph."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.lower.as_pass import as_pass
from relay_layout.lower.cuda_graph import capture, check_extents
from relay_layout.lower.fusion.separable import FusionDecision
from relay_layout.lower.legalize.cuda import cuda_legalization_map
from relay_layout.lower.legalize.cuda_integers import lower_integers
from relay_layout.lower.legalize.recurrent_layers import unroll_layers
from relay_layout.lower.legalize.rejoined_parts import merge_parts
from relay_layout.lower.legalize.views import merge_views
from relay_layout.lower.library.device_code import device_code
from relay_layout.lower.lowering import Lowering
from relay_layout.lower.memory.kernel_buffers import plan_buffers
from relay_layout.targets import CudaTarget
from topi_ext.cuda.codegen.approximations import APPROXIMATE
from topi_ext.cuda.codegen.build import PIPELINE
from topi_ext.cuda.codegen.nvcc import machine_code
from topi_ext.rules.cuda import cuda_rules
from topi_ext.schedule.rule import Rule

_ROUNDED = ("fp16", "tf32")
"""Precisions that round tensors, or the operands of products, to ten bits of mantissa."""


@dataclass(frozen=True)
class CudaLowering(Lowering):
    """Lowering for one GPU target."""

    target: CudaTarget

    tir_pipeline = PIPELINE

    def check(self, module: tvm.IRModule) -> None:
        check_extents(module, self.target.name)

    def legalize_passes(self) -> list[tvm.transform.Pass]:
        return [
            as_pass(unroll_layers, self.target.name, has_loop=False),
            as_pass(lower_integers, self.target),
            as_pass(merge_views),
            as_pass(merge_parts),
            relax.backend.DispatchSampling(),
            relax.backend.DispatchSortScan(),
            relax.transform.LegalizeOps(cuda_legalization_map(self.target)),
        ]

    def separable_passes(self, decide: FusionDecision | None) -> list[tvm.transform.Pass]:
        """There is no kernel for two convolutions."""
        return []

    def rules(self) -> Sequence[Rule]:
        return cuda_rules(self.target.kernels)

    def with_codegen_attributes(self, scheduled: tirx.PrimFunc) -> tirx.PrimFunc:
        """Allow approximate math functions in precisions that round tensors to ten bits."""
        return scheduled.with_attr(APPROXIMATE, True) if self.target.precision in _ROUNDED else scheduled

    def buffer_passes(self) -> list[tvm.transform.Pass]:
        return [as_pass(plan_buffers)]

    def launch_passes(self) -> list[tvm.transform.Pass]:
        return [as_pass(capture)]

    def codegen_context(self) -> AbstractContextManager[None]:
        return machine_code({}, self.target.multiprocessor.arch)

    def device_code(self, executable: Any) -> dict[str, bytes]:
        return device_code(executable, self.target.multiprocessor.arch)

    @property
    def uses_amx(self) -> bool:
        return False
