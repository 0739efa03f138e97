"""Tuning records as a compilation asks for them."""

from dataclasses import replace
from math import exp, log

from topi_ext.chooser import KernelChoice, Source, estimated_us
from topi_ext.kernel import knobs_from_dict
from topi_ext.processor import Processor
from topi_ext.tune.database import Database
from topi_ext.workload import ConvolutionWorkload

_SOURCES: dict[str, Source] = {"measured": "tuned", "inherited": "inherited", "modelled": "modelled"}


class RecordedKernels:
    """The best kernels of a database, and how far its times are from the estimates."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._scales: dict[tuple[Processor, float], float] = {}

    def choice(
        self, workload: ConvolutionWorkload, processor: Processor, gigahertz: float, winograd: bool
    ) -> KernelChoice | None:
        """The best kernel on record; one for a batch of 1 serves where the batch is symbolic.

        Only a measured time is one of this kind of machine; for others the estimate stands.
        """
        if not isinstance(workload.batch, int):
            workload, winograd = replace(workload, batch=1), False
        record = self.database.best(workload, processor, winograd)
        if record is None:
            return None
        microseconds = record.cost * 1e6
        if record.origin != "measured":
            scale = self.estimate_scale(processor, gigahertz)
            microseconds = scale * estimated_us(workload, processor, gigahertz, winograd)
        return KernelChoice(knobs_from_dict(workload, record.knobs), _SOURCES[record.origin], microseconds)

    def estimate_scale(self, processor: Processor, gigahertz: float) -> float:
        """Measured over estimated times, the geometric mean over the workloads on record; 1 without any.

        Estimates stand beside measured times when layouts are chosen, and must not win by being wrong.
        """
        key = processor, gigahertz
        if key not in self._scales:
            measured = [
                (record.workload, record.cost)
                for record in self.database.best_of(processor)
                if record.origin == "measured"
            ]
            ratios = [
                log(seconds * 1e6 / estimated_us(workload, processor, gigahertz))
                for workload, seconds in measured
            ]
            self._scales[key] = exp(sum(ratios) / len(ratios)) if ratios else 1.0
        return self._scales[key]


__all__ = ["RecordedKernels"]
