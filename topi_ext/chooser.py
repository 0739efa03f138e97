"""Which kernel computes a workload: the one on record, else the best by estimate."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from topi_ext.family import Machine, Workload, family_of
from topi_ext.kernel_choice import KernelChoice
from topi_ext.spaces.any_size import any_size_knobs

AnyWorkload = TypeVar("AnyWorkload", bound=Workload)


class Records(Protocol):
    """What tuning has found."""

    def choice(
        self, workload: Workload, processor: Machine, gigahertz: float, winograd: bool
    ) -> KernelChoice | None:
        """The best kernel on record; of the direct ones alone where ``winograd`` is false."""

    def estimate_scale(self, processor: Machine, gigahertz: float) -> float:
        """Measured over estimated times of tuned kernels: what an estimate must be multiplied with."""


def estimated_us(workload: Workload, machine: Machine, gigahertz: float, winograd: bool = True) -> float:
    """Microseconds of the default kernel by estimate, on all threads of the machine."""
    return _microseconds(family_of(workload).cheapest(workload, machine, winograd)[0], machine, gigahertz)


def _microseconds(cycles: float, machine: Machine, gigahertz: float) -> float:
    """Of work of ``cycles``, shared by all threads of the machine."""
    return cycles / machine.threads / (gigahertz * 1e3)


@dataclass(frozen=True)
class KernelChooser:
    """Chooses the kernels of one machine, ``processor``: a CPU's, or a GPU's multiprocessor.

    ``winograd`` false keeps to the direct convolution and its rounding. ``gigahertz`` is the clock that
    turns estimated cycles into time.
    """

    processor: Machine
    gigahertz: float = 3.0
    records: Records | None = None
    winograd: bool = True
    _chosen: dict[tuple[Workload, bool, bool], KernelChoice] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def choose(self, workload: Workload, *, direct: bool = False) -> KernelChoice:
        """The kernel for a workload with static height, width and channels; ``direct`` rules out Winograd."""
        winograd = self.winograd and not direct
        key = (workload, winograd, False)
        if key not in self._chosen:
            found = self._recorded(workload, winograd)
            if found is None:
                found = self._default(*family_of(workload).cheapest(workload, self.processor, winograd))
            self._chosen[key] = found
        return self._chosen[key]

    def fastest(self, forms: Sequence[AnyWorkload], *, any_size: bool = False) -> AnyWorkload:
        """Of workloads with the same result, the one whose kernel takes least; ``any_size`` of any size."""
        choose = self.choose_for_any_size if any_size else self.choose
        return forms[0] if len(forms) == 1 else min(forms, key=lambda form: choose(form).microseconds)

    def choose_for_any_size(self, workload: Workload, *, direct: bool = False) -> KernelChoice:
        """The kernel for images of any size; ``workload`` is that of a usual one."""
        winograd = self.winograd and not direct
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
        """What estimated times are multiplied with to stand beside those on record."""
        return self.records.estimate_scale(self.processor, self.gigahertz) if self.records else 1.0

    def _default(self, cycles: float, knobs: Any) -> KernelChoice:
        """The choice of knobs by their estimated cycles, over all threads."""
        microseconds = self.estimate_scale * _microseconds(cycles, self.processor, self.gigahertz)
        return KernelChoice(knobs, "default", microseconds)


__all__ = ["KernelChooser", "Records", "estimated_us"]
