"""Which kernel computes a workload: the one on record, else the best by estimate."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from topi_ext.kernel import Knobs, cheapest
from topi_ext.processor import Processor
from topi_ext.workload import ConvolutionWorkload

Source = Literal["tuned", "inherited", "modelled", "default"]
"""Where knobs come from: measured, translated from an old log, found by a model, or estimated."""


@dataclass(frozen=True)
class KernelChoice:
    """Knobs for a workload, where they come from, and the microseconds they take, measured or estimated."""

    knobs: Knobs
    source: Source
    microseconds: float


class Records(Protocol):
    """What tuning has found."""

    def choice(
        self, workload: ConvolutionWorkload, processor: Processor, winograd: bool
    ) -> KernelChoice | None:
        """The best kernel on record; of the direct ones alone where ``winograd`` is false."""

    def estimate_scale(self, processor: Processor) -> float:
        """Measured over estimated times of tuned kernels: what an estimate must be multiplied with."""


@dataclass(frozen=True)
class KernelChooser:
    """Chooses the kernels of one processor.

    ``winograd`` false keeps to the direct convolution and its rounding. ``gigahertz`` is the clock that
    turns estimated cycles into time.
    """

    processor: Processor
    gigahertz: float = 3.0
    records: Records | None = None
    winograd: bool = True
    _chosen: dict[tuple[ConvolutionWorkload, bool], KernelChoice] = field(
        default_factory=dict, repr=False, compare=False
    )

    def choose(self, workload: ConvolutionWorkload, *, direct: bool = False) -> KernelChoice:
        """The kernel for a workload with static height, width and channels; ``direct`` rules out Winograd."""
        key = (workload, self.winograd and not direct)
        if key not in self._chosen:
            found = self.records.choice(workload, self.processor, key[1]) if self.records else None
            self._chosen[key] = found or self._estimated(*key)
        return self._chosen[key]

    def _estimated(self, workload: ConvolutionWorkload, winograd: bool) -> KernelChoice:
        cycles, knobs = cheapest(workload, self.processor, winograd)
        scale = self.records.estimate_scale(self.processor) if self.records else 1.0
        return KernelChoice(
            knobs, "default", scale * cycles / self.processor.threads / (self.gigahertz * 1e3)
        )


__all__ = ["KernelChoice", "KernelChooser", "Records", "Source"]
