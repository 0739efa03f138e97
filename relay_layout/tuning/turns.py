"""Transforms and kernels of models, measured in turns until the layouts that they lead to need no others."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from relay_layout.targets import BuildTarget
from relay_layout.tuning.tasks import ModelTasks
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.recorded import RecordedKernels
from topi_ext.tune.records.transforms import TransformTimes
from topi_ext.tune.transform_tuner import TransformMeasurer
from topi_ext.tune.tuner import Tuner, TuneResult

MOST_PLANS = 3
"""How often layouts are chosen anew from what was just measured."""

TRANSFORMS_SHARE = 0.25
"""The share of the time left that transforms may take before kernels, which gain more by each second."""


def with_transforms(target: BuildTarget, database: Database) -> BuildTarget:
    """The target, whose layouts are chosen by the transforms of a database."""
    return replace(target, transforms=TransformTimes(database.transforms(target.machine)))


def with_records(target: BuildTarget, database: Database) -> BuildTarget:
    """The target, whose layouts and kernels are chosen by all that a database holds."""
    kernels = replace(target.kernels, records=RecordedKernels(database))
    return with_transforms(replace(target, kernels=kernels), database)


@dataclass
class Turns:
    """Tunes what layouts need that are chosen by what was tuned before.

    ``tasks_of`` gives the tasks of the models in the layouts chosen for a target. ``transforms`` or ``tuner``
    is None where only the other is to be measured. ``time_limit`` is in seconds for both together, ``stop``
    says that the user wants no more.
    """

    target: BuildTarget
    database: Database
    tasks_of: Callable[[BuildTarget], ModelTasks]
    found: ModelTasks
    transforms: TransformMeasurer | None
    tuner: Tuner | None
    time_limit: float
    stop: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    transforms_measured: int = 0
    result: TuneResult = field(default_factory=lambda: TuneResult([]))

    def run(self) -> TuneResult:
        """The states of the tasks of the last choice of layouts, with sums over all of them."""
        end = self.clock() + self.time_limit
        for _ in range(MOST_PLANS):
            share = 1.0 if self.tuner is None else TRANSFORMS_SHARE
            turn_end = self.clock() + share * (end - self.clock())
            self._measure_transforms(turn_end)
            transforms_left = self.clock() >= turn_end
            if self.tuner is None or self.stop():
                break
            self._tune(self.tuner, end - self.clock())
            if self.result.ended != "done":
                break
            self.target = with_records(self.target, self.database)
            known = {task.workload for task in self.found.tasks}
            found = self.tasks_of(self.target)
            if {task.workload for task in found.tasks} <= known and not transforms_left:
                break
            self.found = found
        if self.stop():
            self.result.ended = "interrupted"
        return self.result

    def _measure_transforms(self, end: float) -> None:
        """Other transforms may be left with the layouts chosen after that, and other kernels be wanted."""
        for _ in range(MOST_PLANS if self.transforms is not None else 0):
            assert self.transforms is not None
            left = end - self.clock()
            new = self.transforms.measure(self.found.transforms, left) if left > 0 else 0
            self.transforms_measured += new
            if not new or self.stop():
                return
            self.target = with_transforms(self.target, self.database)
            self.found = self.tasks_of(self.target)

    def _tune(self, tuner: Tuner, limit: float) -> None:
        if limit <= 0:
            self.result.ended = "time limit"
            return
        tuner = replace(tuner, options=replace(tuner.options, time_limit=limit))
        before, self.result = self.result, tuner.tune(self.found.tasks)
        self.result.measured += before.measured
        self.result.failed += before.failed
        self.result.lost += before.lost
        self.result.seconds += before.seconds
