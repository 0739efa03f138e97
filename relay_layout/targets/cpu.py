"""CPU targets: the processor, the number formats of its kernels, and their estimated times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relay_layout.errors import TargetError
from relay_layout.graph import Node
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.convolutions import Convolution
from relay_layout.targets.cpu_convolution_cost import cpu_convolution_us
from relay_layout.targets.cpu_matmul_cost import cpu_matmul_us
from relay_layout.targets.target import BuildTarget
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.machine.architecture import triple_of
from topi_ext.machine.processor import Processor
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import ByteWeight, bfloat16_forms, integer_forms


@dataclass(frozen=True, kw_only=True)
class CpuTarget(BuildTarget):
    """A CPU, for which LLVM generates code.

    ``features`` are the instruction-set extensions that an artifact for it needs at run time.
    """

    processor: Processor
    features: tuple[str, ...]

    @property
    def description(self) -> str:
        cpu = self.tvm_target.attrs.get("mcpu", "generic")
        precision = "" if self.precision == "fp32" else f", {self.precision}"
        return f"{cpu} ({self.facts.name}, {self.threads} threads{precision})"

    @property
    def machine(self) -> Processor:
        return self.processor

    @property
    def threads(self) -> int:
        return int(self.tvm_target.attrs["num-cores"])

    @property
    def widened_dtypes(self) -> tuple[str, ...]:
        """Only ARM processors with ``fullfp16`` compute in float16."""
        return ("bfloat16",) if "fullfp16" in self.features else ("bfloat16", "float16")

    @property
    def has_branches(self) -> bool:
        """The virtual machine executes branches."""
        return True

    def manifest(self) -> dict[str, Any]:
        return {
            "kind": "llvm",
            "mtriple": triple_of(self.tvm_target),
            "mcpu": str(self.tvm_target.attrs.get("mcpu", "generic")),
            "features": list(self.features),
            "precision": self.precision,
        }

    def kernel_form(
        self,
        workload: ConvolutionWorkload,
        weight: ByteWeight | None = None,
        stored: Callable[[ConvolutionWorkload], np.ndarray] | None = None,
        *,
        any_size: bool = False,
    ) -> ConvolutionWorkload:
        """The workload whose kernel computes a convolution by a constant weight: of bytes, int16 or bfloat16,
        in words or not, whichever the processor is fastest at; where ``any_size``, of images of any size.

        ``stored`` gives a weight of integers as a kernel stores it; without these, its elements are taken for
        any (:func:`topi_ext.workloads.word_forms.integer_forms`).
        """
        forms = integer_forms(workload, self.processor, weight, stored)
        return self.float_form(self._fastest(forms, any_size), any_size=any_size)

    def float_form(self, workload: ConvolutionWorkload, *, any_size: bool = False) -> ConvolutionWorkload:
        """As :meth:`kernel_form`, for convolutions of floats; others are returned as they are."""
        if self.precision != "bf16":
            return workload
        return self._fastest([*bfloat16_forms(workload, self.processor), workload], any_size)

    def _fastest(self, forms: Sequence[ConvolutionWorkload], any_size: bool) -> ConvolutionWorkload:
        if any_size:
            # Instructions for pairs of words multiply matrices alone, of known size.
            forms = [form for form in forms if not form.paired_words]
        return self.kernels.fastest(forms, any_size=any_size)

    def multiply_adds_per_us(self, dtype: str) -> float:
        """The peak rate of multiply-adds of all threads, in elements of ``dtype`` per microsecond."""
        processor = self.processor
        lanes = processor.lanes(DTYPE_BYTES.get(dtype, 4))
        return processor.vectors_per_cycle * lanes * processor.threads * self.facts.gigahertz * 1e3

    def convolution_us(self, node: Node, convolution: Convolution, layouts: ConvolutionLayouts) -> float:
        return cpu_convolution_us(node, convolution, layouts, self)

    def static_matmul_us(self, node: Node) -> float:
        return cpu_matmul_us(node, self)


ANALYSED = "only kernels of CPUs are analysed; give a CPU target"
"""The default reason of :func:`require_cpu`."""


def require_cpu(target: BuildTarget, why: str = ANALYSED) -> CpuTarget:
    """``target`` if it is a CPU; TargetError with the reason ``why`` if not."""
    if not isinstance(target, CpuTarget):
        raise TargetError(f"target {target.name}: {why}")
    return target
