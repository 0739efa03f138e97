"""Measuring: kernels that run, hang, crash or do not compile, and a small convolution tuned for real."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tvm.target import Target

from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import scheduled_kernel
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.machine.processor import Processor, processor_of
from topi_ext.tune.measuring import cpu_measure, workers
from topi_ext.tune.measuring.cpu_measure import CpuMeasurer
from topi_ext.tune.measuring.timing import Timing
from topi_ext.tune.measuring.tracker import RemoteDevice, check_remote
from topi_ext.tune.measuring.workplace import Workplace
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import appender
from topi_ext.tune.records.recorded import RecordedKernels
from topi_ext.tune.space import Space
from topi_ext.tune.task import Task
from topi_ext.tune.tuner import Tuner
from topi_ext.workloads.convolution import ConvolutionWorkload

ROOT = Path(__file__).resolve().parents[4]
TARGET = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})


@pytest.fixture(scope="module")
def processor() -> Processor:
    return processor_of(TARGET)


@pytest.fixture(scope="module")
def measurer() -> Iterator[CpuMeasurer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        measurer = CpuMeasurer(
            TARGET,
            Workplace("here"),
            threads=1,
            timing=Timing(min_repeat_ms=1, build_timeout=4.0, run_timeout=5.0),
        )
        yield measurer
        measurer.close()


def _crash(*_: Any) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def _hang(*_: Any) -> str:
    time.sleep(60)
    return ""


def test_tuning_for_real(
    tmp_path: Path, workload: ConvolutionWorkload, processor: Processor, measurer: CpuMeasurer
) -> None:
    log = tmp_path / "log.jsonl"
    options = TuneOptions(trials=6, batch=6)
    result = Tuner(processor, measurer, appender(log), Database(), options).tune([Task("small", workload)])
    (state,) = result.states
    assert (state.trials, result.failed) == (6, 0)
    assert result.gain >= 1.0
    assert 1e-6 < state.best_seconds < 1.0
    database, problems = Database.load([log])
    assert not problems
    best = database.best(workload, processor)
    assert best is not None
    assert state.best is not None
    assert best.knobs == state.best.fields
    assert len(best.seconds) == 9


@pytest.mark.parametrize("name", ["volume", "pair"])
def test_other_workloads_are_tuned_for_real(
    name: str, tmp_path: Path, processor: Processor, measurer: CpuMeasurer
) -> None:
    import kernel_workloads  # Not above: processes that build import this module, and do not find that one.

    log, workload = tmp_path / "log.jsonl", getattr(kernel_workloads, name)()
    options = TuneOptions(trials=4, batch=4)
    result = Tuner(processor, measurer, appender(log), Database(), options).tune([Task("small", workload)])
    (state,) = result.states
    assert (state.trials, result.failed) == (4, 0)
    database, problems = Database.load([log])
    assert not problems
    choice = RecordedKernels(database).choice(workload, processor, 3.0, True)
    assert choice is not None and state.best is not None
    assert (choice.source, choice.knobs) == ("tuned", state.best.knobs)


def test_knobs_that_do_not_fit_are_an_error_of_their_own(
    workload: ConvolutionWorkload, processor: Processor, measurer: CpuMeasurer
) -> None:
    good = Space(workload, processor).default.knobs
    bad = ConvolutionKnobs(16, 28, 1)
    first, second = measurer.measure(workload, [bad, good])
    assert first.error.startswith("schedule: knobs ")
    assert first.error.endswith("tile of 28 pixels on a run of 14")
    assert len(second.seconds) == 3


def test_rounds_are_run_one_after_the_other(
    workload: ConvolutionWorkload, processor: Processor, measurer: CpuMeasurer
) -> None:
    knobs = [candidate.knobs for candidate in Space(workload, processor).candidates[:2]]
    found = list(measurer.measure(workload, knobs, rounds=2))
    assert [len(one.seconds) for one in found] == [6, 6]


def _fail(*_: Any) -> list[float]:
    raise RuntimeError("cannot open shared object file")


@pytest.mark.parametrize(
    ("step", "worker", "error"),
    [
        ("build", _crash, "build: Subprocess terminated"),
        ("build", _hang, "build: longer than 4 s"),
        ("run", _crash, "run: Subprocess terminated"),
        ("run", _fail, "run: RuntimeError: cannot open shared object file"),
    ],
)
def test_what_goes_wrong_costs_its_kernel_alone(
    step: str,
    worker: Any,
    error: str,
    workload: ConvolutionWorkload,
    processor: Processor,
    measurer: CpuMeasurer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    knobs = [Space(workload, processor).default.knobs]
    place, name = (workers, "build_and_export") if step == "build" else (measurer._runner, "_run_here")
    with monkeypatch.context() as patch:
        patch.setattr(place, name, worker)
        (found,) = measurer.measure(workload, knobs)
    assert found.error == error
    (again,) = measurer.measure(workload, knobs)
    assert len(again.seconds) == 3


def test_a_disk_that_is_full_is_no_kernels_fault(
    workload: ConvolutionWorkload,
    processor: Processor,
    measurer: CpuMeasurer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=999))
    knobs = [Space(workload, processor).default.knobs]
    with pytest.raises(RelayLayoutError, match=r"^there is no place for temporary files \(.*: No space left"):
        list(measurer.measure(workload, knobs))


def test_no_process_starts_before_the_first_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an interrupt while layouts are chosen nothing would be left to end."""

    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("a process starts")

    monkeypatch.setattr(subprocess, "Popen", start)
    CpuMeasurer(TARGET, Workplace("here"), threads=1).close()


def test_results_are_compared_with_those_of_the_default(
    workload: ConvolutionWorkload,
    processor: Processor,
    measurer: CpuMeasurer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = {
        candidate.fields["algorithm"]: candidate.knobs for candidate in Space(workload, processor).candidates
    }
    assert kinds.keys() == {"direct", "winograd"}
    assert [measurer.result_error(workload, knobs) for knobs in kinds.values()] == ["", ""]

    def shifted(asked: ConvolutionWorkload, knobs: Any) -> Any:
        """Of the same shapes, but with all padding at one side."""
        wrong = knobs == kinds["direct"]
        return scheduled_kernel(replace(asked, padding=(0, 0, 2, 2)) if wrong else asked, knobs)

    monkeypatch.setattr(cpu_measure, "scheduled_kernel", shifted)
    found = measurer.result_error(workload, kinds["direct"])
    assert re.fullmatch(r"result: differs by \d\.\de[+-]\d\d of the largest, 1e-05 are allowed", found), found


def test_what_was_built_is_removed(processor: Processor) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        measurer = CpuMeasurer(TARGET, Workplace("here"), threads=1)
    folder = Path(measurer._folder.name)
    assert folder.is_dir()
    measurer.close()
    assert not folder.exists()


def test_a_tracker_that_does_not_answer(unused_port: int) -> None:
    remote = RemoteDevice("127.0.0.1", unused_port, "board")
    with pytest.raises(RelayLayoutError) as caught:
        check_remote(remote)
    assert str(caught.value) == f"no RPC tracker at 127.0.0.1:{unused_port}: Connection refused"


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
