"""Tuning records as a compilation asks for them."""

from dataclasses import replace
from math import ceil
from statistics import geometric_mean
from typing import Literal

from topi_ext.chooser import estimated_us
from topi_ext.family import Machine, Workload, family_of
from topi_ext.kernel_choice import KernelChoice, Source
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.record import Origin, TuningRecord

_Clock = Literal["own", "another", "modelled"]
"""What took a time: the model that is compiled for, another of the same kind of processor, or none."""

_CLOCKS: tuple[_Clock, ...] = ("own", "another", "modelled")

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
        self._scales: dict[tuple[Machine, float], dict[_Clock, float]] = {}

    def choice(
        self, workload: Workload, processor: Machine, gigahertz: float, winograd: bool
    ) -> KernelChoice | None:
        """The best kernel on record; one for a batch of 1 serves where the batch is symbolic.

        Times of another model of the processor, and modelled ones, are brought to the scale of those that
        were measured on the database's own, so that kernels of both can be compared.
        """
        if not isinstance(workload.batch, int):
            workload = replace(workload, batch=1)
        record = self.database.best(workload, processor, winograd)
        if record is None:
            return None
        scale = self.estimate_scale(processor, gigahertz)
        theirs = self._scales_of(processor, gigahertz).get(self._clock(record), scale)
        microseconds = record.cost * 1e6 * scale / theirs
        knobs = family_of(workload).knobs_from_dict(workload, processor, record.knobs)
        return KernelChoice(knobs, _SOURCES[record.origin], microseconds)

    def estimate_scale(self, processor: Machine, gigahertz: float) -> float:
        """Measured over estimated times, the geometric mean over workloads on record.

        Estimates stand beside measured times when layouts are chosen, and must not win by being wrong.
        Times of other models where none is of the database's own, modelled ones where none is measured; 1
        without any.
        """
        scales = self._scales_of(processor, gigahertz)
        return next((scales[clock] for clock in _CLOCKS if clock in scales), 1.0)

    def _scales_of(self, processor: Machine, gigahertz: float) -> dict[_Clock, float]:
        """Recorded over estimated times by what they were taken with; nothing where there are none."""
        key = processor, gigahertz
        if key not in self._scales:
            records: dict[_Clock, list[TuningRecord]] = {}
            for record in self.database.best_of(processor):
                records.setdefault(self._clock(record), []).append(record)
            self._scales[key] = {
                clock: _scale(found[:: ceil(len(found) / SAMPLE)], processor, gigahertz)
                for clock, found in records.items()
            }
        return self._scales[key]

    def _clock(self, record: TuningRecord) -> _Clock:
        if record.origin == "modelled":
            return "modelled"
        return "own" if record.cpu == self.database.cpu else "another"


def _scale(records: list[TuningRecord], processor: Machine, gigahertz: float) -> float:
    ratios = [record.cost * 1e6 / estimated_us(record.workload, processor, gigahertz) for record in records]
    return geometric_mean(ratios)
