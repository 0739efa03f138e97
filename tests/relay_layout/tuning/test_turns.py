"""Turns of choosing layouts and tuning what they need, with tasks and times that are made up."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.tuning.tasks import ModelTasks
from relay_layout.tuning.turns import MOST_PLANS, TRANSFORMS_SHARE, Turns
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.record import TransformRecord, TuningRecord
from topi_ext.tune.task import Task
from topi_ext.tune.tuner import TuneResult
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.transform import TransformWorkload

TARGET = resolve_target("x86-64-v4", threads=2, shipped_records=False)
BLOCKED = ConvolutionWorkload(
    batch=1,
    in_channels=16,
    out_channels=16,
    in_height=8,
    in_width=8,
    kernel=(1, 1),
    strides=(1, 1),
    padding=(0, 0, 0, 0),
    dilation=(1, 1),
    groups=1,
    data_layout="NCHW16c",
    kernel_layout="OIHW16i16o",
    out_layout="NCHW16c",
    dtype="float32",
    out_dtype="float32",
)
LAST = replace(BLOCKED, data_layout="NHWC", kernel_layout="OHWI16o", out_layout="NHWC")
MOVED = TransformWorkload("NCHW", (1, 16, 8, 8), "NCHW", "NHWC", "float32")


@dataclass
class MadeUp:
    """A tuner, and a measurer of transforms, that put what they are given into a database.

    Each transform takes ``transform_seconds`` of the clock, and all kernels together ``kernel_seconds``.
    """

    database: Database
    options: TuneOptions = field(default_factory=TuneOptions)
    ended: str = "done"
    # Shared by copies with other options.
    tuned: list[list[ConvolutionWorkload]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=lambda: [0.0])
    transform_seconds: float = 0.0
    kernel_seconds: float = 0.0

    def tune(self, tasks: Sequence[Task]) -> TuneResult:
        self.tuned.append([task.workload for task in tasks])
        self.limits.append(self.options.time_limit)
        self.clock[0] += self.kernel_seconds
        for task in tasks:
            knobs = TARGET.kernels.choose(task.workload).knobs.to_dict()
            self.database.add(
                TuningRecord(task.workload, TARGET.processor.name, 2, knobs, (1e-3,) * 3, cpu="test")
            )
        return TuneResult([], measured=len(tasks), failed=2, lost=3, ended=self.ended, seconds=1.0)

    def measure(self, workloads: Sequence[TransformWorkload], time_limit: float) -> int:
        known = {record.workload for record in self.database.transforms(TARGET.processor)}
        unknown = [workload for workload in workloads if workload not in known]
        end, new = self.clock[0] + time_limit, []
        while unknown and self.clock[0] < end:
            self.clock[0] += self.transform_seconds
            new.append(unknown.pop(0))
        for workload in new:
            self.database.add(TransformRecord(workload, TARGET.processor.name, 2, (1e-6,) * 3))
        return len(new)


def tasks_of(target: BuildTarget) -> ModelTasks:
    """Blocks look best until they were tuned; transforms into channels last, once the first is measured."""
    tuned = target.kernels.choose(BLOCKED).source == "tuned"
    workload = LAST if tuned else BLOCKED
    wide = [replace(MOVED, shape=(1, 16, 8, 16))] if len(target.transforms) else []
    return ModelTasks([Task("only", workload)], [], [MOVED, *wide])


def turns(
    kernels: bool = True, transforms: bool = True, time_limit: float = inf, **fields: Any
) -> tuple[Turns, MadeUp]:
    database = Database()
    made_up = MadeUp(database, **fields)
    measurer: Any = made_up
    found = Turns(
        TARGET,
        database,
        tasks_of,
        tasks_of(TARGET),
        measurer if transforms else None,
        measurer if kernels else None,
        time_limit,
        lambda: False,
        clock=lambda: made_up.clock[0],
    )
    return found, made_up


def test_what_the_next_choice_needs_is_tuned_too() -> None:
    found, made_up = turns()
    result = found.run()
    assert made_up.tuned == [[BLOCKED], [LAST]]
    sums = (result.measured, result.failed, result.lost, result.seconds)
    assert (sums, result.ended) == ((2, 4, 6, 2.0), "done")
    assert found.transforms_measured == 2
    assert found.found.tasks[0].workload == LAST


def test_transforms_alone() -> None:
    found, made_up = turns(kernels=False)
    assert found.run().ended == "done"
    assert (made_up.tuned, found.transforms_measured) == ([], 2)


def test_kernels_alone() -> None:
    found, made_up = turns(transforms=False)
    found.run()
    assert (made_up.tuned, found.transforms_measured) == ([[BLOCKED], [LAST]], 0)


@pytest.mark.parametrize("ended", ["time limit", "interrupted"])
def test_an_end_is_an_end(ended: str) -> None:
    found, made_up = turns(ended=ended)
    assert found.run().ended == ended
    assert made_up.tuned == [[BLOCKED]]


def test_choices_that_never_settle_come_to_an_end() -> None:
    found, made_up = turns()
    sizes = iter(range(1, 100))
    found.tasks_of = lambda target: ModelTasks([Task("other", replace(BLOCKED, in_width=next(sizes)))], [])
    found.run()
    assert len(made_up.tuned) == MOST_PLANS


MANY = [replace(MOVED, shape=(1, 16, 8, size)) for size in range(1, 41)]


def test_transforms_leave_time_for_kernels() -> None:
    """Of 40 s, with transforms of a second each, kernels get all but the transforms' share."""
    found, made_up = turns(time_limit=40.0, transform_seconds=1.0, kernel_seconds=40.0)
    found.found = ModelTasks([Task("only", BLOCKED)], [], MANY)
    found.tasks_of = lambda target: found.found
    assert found.run().ended == "time limit"
    assert found.transforms_measured == TRANSFORMS_SHARE * 40
    assert made_up.limits == [40.0 - found.transforms_measured]


def test_transforms_go_on_where_kernels_leave_time() -> None:
    """The second turn has a share of what the first has left, and so on."""
    found, made_up = turns(time_limit=40.0, transform_seconds=1.0, kernel_seconds=2.0)
    found.found = ModelTasks([Task("only", BLOCKED)], [], MANY)
    found.tasks_of = lambda target: found.found
    assert found.run().ended == "done"
    assert made_up.limits == [30.0, 21.0, 14.0]
    assert found.transforms_measured == 10 + 7 + 5


def test_transforms_alone_have_all_the_time() -> None:
    found, _ = turns(kernels=False, time_limit=30.0, transform_seconds=1.0)
    found.found = ModelTasks([Task("only", BLOCKED)], [], MANY)
    found.tasks_of = lambda target: found.found
    found.run()
    assert found.transforms_measured == 30
