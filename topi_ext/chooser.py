"""The choice of a kernel for a workload: the best recorded one, else the one with the lowest estimate."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from topi_ext.family import Machine, Workload, family_of
from topi_ext.kernel_choice import KernelChoice
from topi_ext.spaces.any_size import any_size_knobs
from topi_ext.workloads.convolution import ConvolutionWorkload


class Records(Protocol):
    """The results of tuning."""

    def choice(
        self, workload: Workload, processor: Machine, gigahertz: float, winograd: bool
    ) -> KernelChoice | None:
        """The best recorded kernel, or None; without ``winograd`` only direct kernels count."""

    def estimate_scale(self, processor: Machine, gigahertz: float) -> float:
        """The ratio of recorded to estimated times of tuned kernels, by which estimates are scaled."""


def estimated_us(workload: Workload, machine: Machine, gigahertz: float) -> float:
    """Estimated microseconds of the default kernel, on all threads of the machine."""
    return _microseconds(family_of(workload).cheapest(workload, machine, True)[0], machine, gigahertz)


def _microseconds(cycles: float, machine: Machine, gigahertz: float) -> float:
    """The time of ``cycles`` of work shared evenly by all threads of the machine."""
    return cycles / machine.threads / (gigahertz * 1e3)


@dataclass(frozen=True)
class KernelChooser:
    """Chooses kernels for one machine, ``processor``: a CPU core, or a multiprocessor of a GPU.

    Without ``winograd`` only direct convolutions are chosen, for the sake of their rounding. ``gigahertz`` is
    the clock that converts estimated cycles to time. Choices are cached.
    """

    processor: Machine
    gigahertz: float = 3.0
    records: Records | None = None
    winograd: bool = True
    _chosen: dict[tuple[Workload, bool, bool], KernelChoice] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def choose(self, workload: Workload, *, winograd: bool = True, any_size: bool = False) -> KernelChoice:
        """The kernel for a workload of static extents but its batch; a direct one without ``winograd``.

        With ``any_size`` that for images of dynamic size, which CPUs alone have: ``workload`` is of a typical
        one.
        """
        key = (workload, winograd and self.winograd, any_size)
        if key not in self._chosen:
            self._chosen[key] = self._found(*key)
        return self._chosen[key]

    def _found(self, workload: Workload, winograd: bool, any_size: bool) -> KernelChoice:
        if any_size:
            assert isinstance(workload, ConvolutionWorkload)
            return self._default(*any_size_knobs(workload, self.processor, winograd))
        recorded = self._recorded(workload, winograd)
        if recorded is not None:
            return recorded
        return self._default(*family_of(workload).cheapest(workload, self.processor, winograd))

    def fastest(self, forms: Sequence[ConvolutionWorkload], *, any_size: bool = False) -> ConvolutionWorkload:
        """The fastest of several forms of a convolution; with ``any_size``, for images of dynamic size."""
        if len(forms) == 1:
            return forms[0]
        return min(forms, key=lambda form: self.choose(form, any_size=any_size).microseconds)

    def _recorded(self, workload: Workload, winograd: bool) -> KernelChoice | None:
        if self.records is None:
            return None
        return self.records.choice(workload, self.processor, self.gigahertz, winograd)

    @property
    def estimate_scale(self) -> float:
        """The factor that makes estimated times comparable with recorded ones; 1 without records."""
        return self.records.estimate_scale(self.processor, self.gigahertz) if self.records else 1.0

    def _default(self, cycles: float, knobs: Any) -> KernelChoice:
        """The choice of ``knobs`` by their estimated ``cycles``, summed over all threads."""
        microseconds = self.estimate_scale * _microseconds(cycles, self.processor, self.gigahertz)
        return KernelChoice(knobs, "default", microseconds)
