"""The interface through which cost estimates see a CPU target, and what they have in common."""

from collections.abc import Sequence
from typing import Protocol

from relay_layout.graph import Value
from relay_layout.ir import size_in_bytes
from relay_layout.targets.facts import TargetFacts
from topi_ext.chooser import KernelChooser
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import ByteWeight


class CpuCosts(Protocol):
    """The part of :class:`relay_layout.targets.cpu.CpuTarget` that its cost model reads.

    That class calls the model, whose modules therefore do not import it.
    """

    @property
    def facts(self) -> TargetFacts:
        """Rates of the machine."""
        ...

    @property
    def kernels(self) -> KernelChooser:
        """The chooser of kernels of convolutions, with their times."""
        ...

    def kernel_form(
        self, workload: ConvolutionWorkload, weight: ByteWeight | None = None
    ) -> ConvolutionWorkload:
        """The workload whose kernel computes a convolution by a constant weight."""
        ...

    def multiply_adds_per_us(self, dtype: str) -> float:
        """The peak rate of multiply-adds of all threads, in elements of ``dtype`` per microsecond."""
        ...


def loops_us(tensors: Sequence[Value], multiply_adds: int, share: float, target: CpuCosts) -> float:
    """Estimated microseconds of loops that read and write ``tensors`` once, the result the last of them.

    They reach a ``share`` of the multiply-add peak.
    """
    moved = sum(size_in_bytes(tensor.shape or (), tensor.dtype) for tensor in tensors)
    microseconds = target.facts.moving_us(moved) + target.facts.launch_us
    return microseconds + multiply_adds / (target.multiply_adds_per_us(tensors[-1].dtype) * share)
