"""Turns of choosing layouts and tuning what they need, with tasks and times that are made up."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.tuning.tasks import ModelTasks
from relay_layout.tuning.turns import MOST_PLANS, Turns
from topi_ext.tune.database import Database
from topi_ext.tune.record import TransformRecord, TuningRecord
from topi_ext.tune.task import Task
from topi_ext.tune.tuner import TuneOptions, TuneResult
from topi_ext.workload import ConvolutionWorkload, TransformWorkload

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
    """A tuner, and a measurer of transforms, that put what they are given into a database."""

    database: Database
    options: TuneOptions = field(default_factory=TuneOptions)
    ended: str = "done"
    # Shared by copies with other options.
    tuned: list[list[ConvolutionWorkload]] = field(default_factory=list)

    def tune(self, tasks: Sequence[Task]) -> TuneResult:
        self.tuned.append([task.workload for task in tasks])
        for task in tasks:
            knobs = TARGET.kernels.choose(task.workload).knobs.to_dict()
            self.database.add(
                TuningRecord(task.workload, TARGET.processor.name, 2, knobs, (1e-3,) * 3, cpu="test")
            )
        return TuneResult([], measured=len(tasks), failed=2, lost=3, ended=self.ended, seconds=1.0)

    def measure(self, workloads: Sequence[TransformWorkload]) -> int:
        known = {record.workload for record in self.database.transforms(TARGET.processor)}
        new = [workload for workload in workloads if workload not in known]
        for workload in new:
            self.database.add(TransformRecord(workload, TARGET.processor.name, 2, (1e-6,) * 3))
        return len(new)


def tasks_of(target: BuildTarget) -> ModelTasks:
    """Blocks look best until they were tuned; transforms into channels last, once the first is measured."""
    tuned = target.kernels.choose(BLOCKED).source == "tuned"
    workload = LAST if tuned else BLOCKED
    wide = [replace(MOVED, shape=(1, 16, 8, 16))] if len(target.transforms) else []
    return ModelTasks([Task("only", workload)], [], [MOVED, *wide])


def turns(kernels: bool = True, transforms: bool = True, **fields: Any) -> tuple[Turns, MadeUp]:
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
        lambda: False,
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
