"""Measuring the layout transforms of networks: nothing to choose, only times to take and to keep."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from tvm import tirx

from topi_ext.family import Machine
from topi_ext.tune.measuring.measurement import Measurement, Measurer
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.record import TransformRecord, utc_now
from topi_ext.workloads.transform import TransformWorkload

ROUNDS = 2
"""How often each is run: a busy moment of the machine hits one round."""

BATCH = 8
"""Transforms that are built together."""


@dataclass(frozen=True)
class TransformProgress:
    """How many transforms of how many are measured."""

    measured: int
    transforms: int
    name: str


@dataclass
class TransformMeasurer:
    """Measures transforms and gives each to ``keep`` at once; ``stop`` is asked between them.

    ``function_of`` gives the scheduled function that compilation runs for a transform.
    """

    processor: Machine
    measurer: Measurer
    keep: Callable[[TransformRecord], None]
    database: Database
    function_of: Callable[[TransformWorkload], tirx.PrimFunc]
    progress: Callable[[TransformProgress], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False
    versions: dict[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    def is_known(self, workload: TransformWorkload) -> bool:
        """Was it measured on this machine, with or without success?"""
        return self.database.has_transform(workload, self.processor, self.measurer.cpu)

    def measure(self, workloads: Sequence[TransformWorkload], time_limit: float = inf) -> int:
        """Measure what is not known yet, for as long as ``stop`` and so many seconds allow; how many.

        Raises what ``keep`` raises; RelayLayoutError where the machine to measure on is gone.
        """
        end = self.clock() + time_limit
        left = [workload for workload in workloads if not self.is_known(workload)]
        measured = 0
        for first in range(0, len(left), BATCH):
            batch = left[first : first + BATCH]
            measurements = self.measurer.measure_functions(list(map(self.function_of, batch)), ROUNDS)
            for workload, measurement in zip(batch, measurements, strict=False):
                stopped = self.stop()
                if stopped and measurement.error:
                    return measured
                if measurement.lost:
                    continue
                self._keep(workload, measurement)
                measured += 1
                self.progress(TransformProgress(measured, len(left), describe(workload)))
                if stopped or self.clock() >= end:
                    return measured
        return measured

    def _keep(self, workload: TransformWorkload, measurement: Measurement) -> None:
        record = TransformRecord(
            workload=workload,
            processor=self.processor.name,
            threads=self.processor.threads,
            seconds=measurement.seconds,
            error=measurement.error,
            cpu=self.measurer.cpu,
            time=utc_now(),
            versions=self.versions,
        )
        self.keep(record)
        self.database.add(record)


def describe(workload: TransformWorkload) -> str:
    """A transform in a few words, such as ``NCHW -> NHWC of 1x64x56x56 float32``."""
    extents = "x".join(map(str, workload.shape))
    return f"{workload.source_layout} -> {workload.target_layout} of {extents} {workload.dtype}"
