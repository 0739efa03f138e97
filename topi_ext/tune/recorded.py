"""Tuning records as a compilation asks for them."""

from dataclasses import replace
from math import ceil
from statistics import geometric_mean

from topi_ext.chooser import KernelChoice, Source, estimated_us
from topi_ext.family import Machine, Workload, family_of
from topi_ext.tune.database import Database
from topi_ext.tune.record import Origin, TuningRecord

_SOURCES: dict[Origin, Source] = {"measured": "tuned", "modelled": "modelled"}

SAMPLE = 64
"""Workloads that a scale is taken from, evenly spread over those on record.

Ratios spread by a factor of 1.4, their mean over so many by 1.05; an estimate takes milliseconds, and every
process that compiles would spend more than a second on all of a shipped log.
"""


class RecordedKernels:
    """The best kernels of a database, and how far its times are from the estimates."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._scales: dict[tuple[Machine, float], dict[Origin, float]] = {}

    def choice(
        self, workload: Workload, processor: Machine, gigahertz: float, winograd: bool
    ) -> KernelChoice | None:
        """The best kernel on record; one for a batch of 1 serves where the batch is symbolic.

        Only a measured time is one of this kind of machine; modelled ones are brought to its scale where
        there are both.
        """
        if not isinstance(workload.batch, int):
            workload = replace(workload, batch=1)
        record = self.database.best(workload, processor, winograd)
        if record is None:
            return None
        microseconds = record.cost * 1e6
        if record.origin == "modelled":
            scale = self.estimate_scale(processor, gigahertz)
            microseconds *= scale / self._scales_of(processor, gigahertz).get("modelled", scale)
        knobs = family_of(workload).knobs_from_dict(workload, processor, record.knobs)
        return KernelChoice(knobs, _SOURCES[record.origin], microseconds)

    def estimate_scale(self, processor: Machine, gigahertz: float) -> float:
        """Measured over estimated times, the geometric mean over workloads on record.

        Estimates stand beside measured times when layouts are chosen, and must not win by being wrong.
        Modelled times where none is measured; 1 without any.
        """
        scales = self._scales_of(processor, gigahertz)
        return scales.get("measured", scales.get("modelled", 1.0))

    def _scales_of(self, processor: Machine, gigahertz: float) -> dict[Origin, float]:
        """Recorded over estimated times by origin; nothing for an origin without records."""
        key = processor, gigahertz
        if key not in self._scales:
            records: dict[Origin, list[TuningRecord]] = {}
            for record in self.database.best_of(processor):
                records.setdefault(record.origin, []).append(record)
            self._scales[key] = {
                origin: _scale(found[:: ceil(len(found) / SAMPLE)], processor, gigahertz)
                for origin, found in records.items()
            }
        return self._scales[key]


def _scale(records: list[TuningRecord], processor: Machine, gigahertz: float) -> float:
    ratios = [record.cost * 1e6 / estimated_us(record.workload, processor, gigahertz) for record in records]
    return geometric_mean(ratios)


__all__ = ["RecordedKernels"]
