"""Lowering for CPUs: vectorized kernels, for which LLVM generates code."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.lower.as_pass import as_pass
from relay_layout.lower.fusion.attention import join_attention
from relay_layout.lower.fusion.separable import FusionDecision, if_faster, join_separable
from relay_layout.lower.legalize.cpu import legalization_map
from relay_layout.lower.legalize.cpu_integers import lower_integers
from relay_layout.lower.legalize.few_rows import multiply_by_rows
from relay_layout.lower.legalize.pixel_rows import by_pixel_rows
from relay_layout.lower.legalize.product_rows import multiply_as_rows
from relay_layout.lower.legalize.recurrent_layers import unroll_layers
from relay_layout.lower.legalize.rejoined_parts import merge_parts
from relay_layout.lower.legalize.scattering import scatter_rows
from relay_layout.lower.legalize.transposed import by_phases
from relay_layout.lower.legalize.views import merge_views
from relay_layout.lower.lowering import Lowering
from relay_layout.targets import CpuTarget
from topi_ext.codegen.build import PIPELINE
from topi_ext.rules.cpu import cpu_rules
from topi_ext.schedule.rule import Rule


@dataclass(frozen=True)
class CpuLowering(Lowering):
    """Lowering for one CPU target."""

    target: CpuTarget

    tir_pipeline = PIPELINE

    def check(self, module: tvm.IRModule) -> None:
        """CPUs run every network."""

    def legalize_passes(self) -> list[tvm.transform.Pass]:
        """Sorts that :func:`legalization_map` does not lower are left to TVM's ``DispatchSortScan``."""
        return [
            as_pass(unroll_layers, self.target.name, has_loop=True),
            as_pass(multiply_as_rows),
            as_pass(by_phases),
            as_pass(by_pixel_rows, self.target),
            as_pass(lower_integers, self.target),
            as_pass(merge_views),
            as_pass(merge_parts),
            as_pass(join_attention),
            as_pass(multiply_by_rows, self.target),
            as_pass(scatter_rows),
            relax.backend.DispatchSampling(),
            relax.transform.LegalizeOps(legalization_map(self.target)),
            relax.backend.DispatchSortScan(),
        ]

    def separable_passes(self, decide: FusionDecision | None) -> list[tvm.transform.Pass]:
        """Merge depthwise convolutions with the pointwise ones that read their results."""
        if not self.target.processor.separable:
            return []
        return [as_pass(join_separable, decide or if_faster(self.target.kernels))]

    def rules(self) -> Sequence[Rule]:
        return cpu_rules(self.target.kernels)

    def with_codegen_attributes(self, scheduled: tirx.PrimFunc) -> tirx.PrimFunc:
        return scheduled

    def buffer_passes(self) -> list[tvm.transform.Pass]:
        return []

    def launch_passes(self) -> list[tvm.transform.Pass]:
        return []

    def codegen_context(self) -> AbstractContextManager[None]:
        return nullcontext()

    def device_code(self, executable: Any) -> dict[str, bytes]:
        return {}

    @property
    def uses_amx(self) -> bool:
        return self.target.processor.amx_registers > 0
