"""Measuring layout transforms, with times that are made up."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tvm import te

from topi_ext.machine.processor import Processor
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import appender, load
from topi_ext.tune.transform_tuner import TransformMeasurer, TransformProgress
from topi_ext.workloads.transform import TransformWorkload


class MadeUp:
    cpu = "test machine"
    builds_ahead = False

    def __init__(self) -> None:
        self.measured: list[int] = []
        self.errors: dict[int, str] = {}
        self.then: Callable[[], None] = lambda: None

    def measure_functions(self, functions: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
        for function in functions:
            size = int(function.params[0].shape[0])
            self.measured.append(size)
            self.then()
            error = self.errors.get(size, "")
            yield Measurement(() if error else (size * 1e-6,) * 3 * rounds, error)


def moved(size: int) -> TransformWorkload:
    return TransformWorkload("AB", (size, 4), "AB", "BA", "float32")


def function_of(workload: TransformWorkload) -> Any:
    source = te.placeholder(workload.shape)
    return te.create_prim_func([source, te.compute(workload.shape[::-1], lambda i, j: source[j, i])])


@pytest.fixture
def measurer() -> MadeUp:
    return MadeUp()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def transforms(processor: Processor, measurer: Any, log: Path, **fields: Any) -> TransformMeasurer:
    records, _ = load([log]) if log.exists() else ([], [])
    return TransformMeasurer(processor, measurer, appender(log), Database(records), function_of, **fields)


def test_each_is_on_record_at_once(processor: Processor, measurer: MadeUp, log: Path) -> None:
    seen: list[tuple[TransformProgress, int]] = []

    def progress(state: TransformProgress) -> None:
        seen.append((state, len(load([log])[0])))

    found = transforms(processor, measurer, log, progress=progress, versions={"tvm": "0.27"})
    assert found.measure([moved(2), moved(3)]) == 2
    name = "AB -> BA of {}x4 float32"
    assert seen == [
        (TransformProgress(1, 2, name.format(2)), 1),
        (TransformProgress(2, 2, name.format(3)), 2),
    ]
    first = load([log])[0][0]
    assert (first.workload, first.processor, first.threads) == (moved(2), processor.name, 2)
    assert (first.seconds, first.cpu, first.versions) == ((2e-6,) * 6, "test machine", {"tvm": "0.27"})
    assert first.time.endswith("+00:00")


def test_what_is_on_record_is_not_measured_again(processor: Processor, measurer: MadeUp, log: Path) -> None:
    measurer.errors[3] = "run: no luck"
    assert transforms(processor, measurer, log).measure([moved(2), moved(3)]) == 2
    assert transforms(processor, measurer, log).measure([moved(2), moved(3), moved(5)]) == 1
    assert measurer.measured == [2, 3, 5]
    measurer.cpu = "another machine"
    assert transforms(processor, measurer, log).measure([moved(2)]) == 1


def test_a_failure_is_on_record(processor: Processor, measurer: MadeUp, log: Path) -> None:
    measurer.errors[2] = "run: no luck"
    found = transforms(processor, measurer, log)
    found.measure([moved(2)])
    assert [one.error for one in load([log])[0]] == ["run: no luck"]
    assert found.is_known(moved(2))


def test_an_interrupt_ends_it(processor: Processor, measurer: MadeUp, log: Path) -> None:
    found = transforms(processor, measurer, log, stop=lambda: len(measurer.measured) >= 2)
    assert found.measure([moved(size) for size in range(2, 6)]) == 2
    # What failed may have been hit by the interrupt itself.
    measurer.errors[4] = "run: Subprocess terminated"
    assert found.measure([moved(4)]) == 0
    assert len(load([log])[0]) == 2


def test_time_ends_it(processor: Processor, measurer: MadeUp, log: Path) -> None:
    seconds = iter([0.0, 1.0, 5.0, 9.0])
    found = transforms(processor, measurer, log, clock=lambda: next(seconds))
    assert found.measure([moved(size) for size in range(2, 6)], time_limit=5.0) == 2
