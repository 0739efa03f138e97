"""The interface of targets: what TVM compiles for, and what operators cost."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import tvm

from relay_layout.environment.host import architecture
from relay_layout.errors import TargetError
from relay_layout.graph import Node
from relay_layout.ir import is_static
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.convolutions import Convolution
from relay_layout.targets.facts import TargetFacts
from topi_ext.chooser import KernelChooser
from topi_ext.codegen.bfloat16 import BITS
from topi_ext.family import Machine
from topi_ext.tune.records.transforms import TransformTimes

Precision = Literal["fp16", "bf16", "tf32", "fp32"]
"""``fp16`` and ``bf16``: tensors between kernels are float16 or bfloat16, and all arithmetic but the products
of matrices is float32. ``tf32``: tensors are float32, and products are made of operands that are rounded to
10 bits of mantissa. ``fp32``: everything is float32."""

STORED: dict[str, str] = {"fp16": "float16", "bf16": BITS, "tf32": "float32", "fp32": "float32"}
"""The dtype in which float32 tensors are stored between kernels; for bfloat16 that of its bits."""


@dataclass(frozen=True)
class BuildTarget(ABC):
    """A target as compilation needs it; :class:`~relay_layout.targets.cpu.CpuTarget` and
    :class:`~relay_layout.targets.cuda.CudaTarget` are the kinds.

    ``name`` is the name that was asked for, :attr:`description` what it resolved to. ``architecture`` is that
    of the host, which calls the kernels. ``kernels`` chooses the kernels of convolutions and estimates their
    time; ``transforms`` has recorded times of layout transforms. ``precision`` is that of products of floats.
    """

    name: str
    tvm_target: tvm.target.Target
    facts: TargetFacts
    architecture: str
    kernels: KernelChooser = field(compare=False)
    transforms: TransformTimes = field(default_factory=TransformTimes, compare=False)
    precision: Precision = "fp32"

    @property
    def storage_dtype(self) -> str:
        """The dtype in which float32 tensors are stored between kernels."""
        return STORED[self.precision]

    @property
    def cross_triple(self) -> str:
        """What to link for, such as ``aarch64-linux-gnu``; empty if that is this machine's architecture.

        TargetError where it is not Linux, the only system that is linked for from another one.
        """
        if self.architecture == architecture():
            return ""
        triple = self.manifest()["mtriple"]
        if "linux" not in triple:
            raise TargetError(f"target {self.name}: cross linking is for Linux alone, not for {triple}")
        # Drivers are named after the C library, and a version of Android is the driver's to choose.
        system = triple.partition("linux-")[2].rstrip("0123456789") or "gnu"
        return f"{self.architecture}-linux-{system}"

    @property
    @abstractmethod
    def description(self) -> str:
        """A short description for messages."""

    @property
    @abstractmethod
    def machine(self) -> Machine:
        """What kernels are chosen and tuned for; records are stored under its name."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Host threads that kernels are scheduled for."""

    @property
    @abstractmethod
    def widened_dtypes(self) -> tuple[str, ...]:
        """Floating-point dtypes in which kernels compute in float32 instead."""

    @property
    @abstractmethod
    def has_branches(self) -> bool:
        """Can a network branch on the values of tensors at run time?"""

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """The target's entry in an artifact's manifest: what a machine needs to run the code."""

    @abstractmethod
    def convolution_us(self, node: Node, convolution: Convolution, layouts: ConvolutionLayouts) -> float:
        """Estimated microseconds of the default kernel of a convolution in these layouts."""

    def matmul_us(self, node: Node) -> float:
        """Estimated microseconds of a matrix product; 0 for symbolic extents, and for an extent of 0."""
        shapes = [value.shape for value in (*node.operands, *node.results)]
        if any(not shape or not is_static(shape) or 0 in shape for shape in shapes):
            return 0.0
        return self.static_matmul_us(node)

    @abstractmethod
    def static_matmul_us(self, node: Node) -> float:
        """As :meth:`matmul_us`, called for static, non-empty shapes only."""
