"""The choice of a kernel for a workload: the best recorded one, else the one with the lowest estimate."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from topi_ext.family import Machine, Workload, family_of
from topi_ext.kernel_choice import KernelChoice
from topi_ext.spaces.any_size import any_size_knobs
from topi_ext.workload import ConvolutionWorkload


class Records(Protocol):
    """The results of tuning."""

    def choice(
        self, workload: Workload, processor: Machine, gigahertz: float, winograd: bool
    ) -> KernelChoice | None:
        """The best recorded kernel, or None; without ``winograd`` only direct kernels count."""

    def estimate_scale(self, processor: Machine, gigahertz: float) -> float:
        """The ratio of recorded to estimated times of tuned kernels, by which estimates are scaled."""


def estimated_us(workload: Workload, machine: Machine, gigahertz: float, winograd: bool = True) -> float:
    """Estimated microseconds of the default kernel, on all threads of the machine."""
    return _microseconds(family_of(workload).cheapest(workload, machine, winograd)[0], machine, gigahertz)


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

    def choose(self, workload: Workload, *, winograd: bool = True) -> KernelChoice:
        """The kernel for a workload of static height, width and channels; a direct one without
        ``winograd``.
        """
        winograd = winograd and self.winograd
        key = (workload, winograd, False)
        if key not in self._chosen:
            found = self._recorded(workload, winograd)
            if found is None:
                found = self._default(*family_of(workload).cheapest(workload, self.processor, winograd))
            self._chosen[key] = found
        return self._chosen[key]

    def fastest(self, forms: Sequence[ConvolutionWorkload], *, any_size: bool = False) -> ConvolutionWorkload:
        """The fastest of several forms of a convolution; with ``any_size``, for images of dynamic size."""
        choose = self.choose_for_any_size if any_size else self.choose
        return forms[0] if len(forms) == 1 else min(forms, key=lambda form: choose(form).microseconds)

    def choose_for_any_size(self, workload: ConvolutionWorkload, *, winograd: bool = True) -> KernelChoice:
        """As :meth:`choose`, on CPUs alone, for images of dynamic size; ``workload`` has a typical size."""
        winograd = winograd and self.winograd
        key = (workload, winograd, True)
        if key not in self._chosen:
            self._chosen[key] = self._default(*any_size_knobs(workload, self.processor, winograd))
        return self._chosen[key]

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
