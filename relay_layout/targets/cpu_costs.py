"""The interface through which cost estimates see a CPU target."""

from typing import Protocol

from relay_layout.targets.facts import TargetFacts
from topi_ext.chooser import KernelChooser
from topi_ext.word_forms import ByteWeight
from topi_ext.workload import ConvolutionWorkload


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
