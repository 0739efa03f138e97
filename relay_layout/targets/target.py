"""What compilation knows of a target: what TVM compiles for, which instructions it needs, what it costs."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import tvm

from relay_layout.host import architecture
from relay_layout.targets.facts import TargetFacts
from topi_ext.brain import BITS
from topi_ext.chooser import KernelChooser
from topi_ext.family import Machine
from topi_ext.knobs import DTYPE_BYTES
from topi_ext.processor import Processor, processor_of, triple_of
from topi_ext.tune.transforms import TransformTimes
from topi_ext.word_forms import brain_form, integer_forms
from topi_ext.workload import ConvolutionWorkload

Precision = Literal["fp16", "bf16", "tf32", "fp32"]
"""``fp16`` and ``bf16``: tensors between kernels are float16 or bfloat16, and all arithmetic but the products
of matrices is float32. ``tf32``: tensors are float32, and products are made of operands that are rounded to
10 bits of mantissa. ``fp32``: everything is float32."""

STORED: dict[str, str] = {"fp16": "float16", "bf16": BITS, "tf32": "float32", "fp32": "float32"}
"""What tensors of float32 are between kernels, by :data:`Precision`; of bfloat16 the bits."""


@dataclass(frozen=True)
class BuildTarget:
    """A target as compilation needs it.

    ``name`` is what was asked for, ``description`` what it resolved to. ``features`` are the CPU
    extensions that an artifact built for it needs at run time. ``kernels`` chooses the convolutions' kernels,
    and so knows what they cost; ``transforms`` knows it of measured layout transforms. ``precision`` is what
    floats are multiplied in.
    """

    name: str
    tvm_target: tvm.target.Target
    facts: TargetFacts
    features: tuple[str, ...]
    architecture: str
    kernels: KernelChooser = field(compare=False)
    transforms: TransformTimes = field(default_factory=TransformTimes, compare=False)
    precision: Precision = "fp32"

    @property
    def stored(self) -> str:
        """What tensors of float32 are between kernels."""
        return STORED[self.precision]

    def kernel_form(
        self, workload: ConvolutionWorkload, weight: np.ndarray | None = None
    ) -> ConvolutionWorkload:
        """The workload whose kernel computes a convolution by a constant weight: in words of bytes, or of
        bfloat16 where the target computes in that and is the faster for it.

        ``weight`` has the outputs first; without it, its elements are taken for any.
        """
        processor = self.kernels.processor
        assert isinstance(processor, Processor), "words are a CPU's"
        return self.float_form(self.kernels.fastest(integer_forms(workload, processor, weight)))

    def float_form(self, workload: ConvolutionWorkload) -> ConvolutionWorkload:
        """As :meth:`kernel_form`, with convolutions of bytes as they are."""
        if self.precision != "bf16":
            return workload
        brain = brain_form(workload, vectors=self.processor.pair_instructions > 0)
        if brain is workload:
            return workload
        return self.kernels.fastest((brain, workload))

    @property
    def processor(self) -> Processor:
        return processor_of(self.tvm_target)

    @property
    def machine(self) -> Machine:
        """What kernels are chosen and tuned for; records are kept under its name."""
        return self.processor

    @property
    def threads(self) -> int:
        return int(self.tvm_target.attrs["num-cores"])

    def multiply_adds_per_us(self, dtype: str) -> float:
        """The peak of all threads, in elements of a data type."""
        processor = self.processor
        lanes = processor.lanes(DTYPE_BYTES.get(dtype, 4))
        return processor.fma_per_cycle * lanes * processor.threads * self.facts.gigahertz * 1e3

    @property
    def widened_dtypes(self) -> tuple[str, ...]:
        """Types of floats that kernels of this target do not compute in, but in float32 instead.

        float16 is computed in by ARM processors with ``fullfp16`` alone.
        """
        return ("bfloat16",) if "fullfp16" in self.features else ("bfloat16", "float16")

    @property
    def foreign_machine(self) -> str:
        """The architecture to cross-compile for; empty where it is that of this machine."""
        return "" if self.architecture == architecture() else self.architecture

    @property
    def description(self) -> str:
        cpu = self.tvm_target.attrs.get("mcpu", "generic")
        precision = "" if self.precision == "fp32" else f", {self.precision}"
        return f"{cpu} ({self.facts.name}, {self.threads} threads{precision})"

    def manifest(self) -> dict[str, Any]:
        """The target as an artifact declares it."""
        return {
            "kind": "llvm",
            "mtriple": triple_of(self.tvm_target),
            "mcpu": str(self.tvm_target.attrs.get("mcpu", "generic")),
            "features": list(self.features),
            "precision": self.precision,
        }


__all__ = ["STORED", "BuildTarget", "Precision"]
