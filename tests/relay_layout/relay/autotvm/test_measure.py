"""Builders, runners and boards: what their options become."""

from dataclasses import replace
from typing import Any

import pytest

from relay_layout.errors import InputError
from relay_layout.relay import autotvm
from relay_layout.relay.autotvm import measure
from relay_layout.relay.autotvm.task import Task
from relay_layout.targets import resolve_target
from relay_layout.tuning import measurers
from topi_ext.errors import RelayLayoutError
from topi_ext.tune.measuring.timing import USUAL_OF_GPUS, Timing
from topi_ext.tune.records.record import TuningRecord


class Opened:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_options_of_builder_and_runner_here(tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def local(target: Any, **options: Any) -> Opened:
        seen.append(options)
        return Opened()

    monkeypatch.setattr(measurers, "local_measurer", local)
    option = autotvm.measure_option(
        autotvm.LocalBuilder(timeout=5, n_parallel=3),
        autotvm.LocalRunner(timeout=4, number=20, repeat=7, min_repeat_ms=150),
    )
    target = tasks[0].resolved()
    with option.measurer(target) as first, option.measurer(target) as second:
        assert first is second
    assert seen == [{"timing": Timing(7, 150, 5, 4), "builders": 3}]
    assert first.closed == 0
    with option.measurer(replace(target)) as other:
        assert (first.closed, other.closed) == (1, 0)
    del option
    assert (first.closed, other.closed) == (1, 1)


def test_boards_are_given_back_after_a_task(tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def remote(target: Any, device: Any, *, tell: Any, **options: Any) -> Opened:
        seen.append((device.place, device.key, options))
        return Opened()

    monkeypatch.setattr(measurers, "remote_measurer", remote)
    option = autotvm.measure_option("local", autotvm.RPCRunner("pi", "tracker", 9190, number=5, timeout=10))
    with option.measurer(tasks[0].resolved()) as measurer:
        assert measurer.closed == 0
    assert measurer.closed == 1
    assert seen == [("tracker:9190", "pi", {"timing": Timing(run_timeout=10), "builders": None})]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: autotvm.LocalBuilder(build_func="ndk"),
            "LocalBuilder: build_func 'ndk' is not there; leave it out, and for another linker, such as the "
            "NDK's clang, set $CROSS_CC",
        ),
        (
            lambda: autotvm.measure_option(runner="rpc"),
            "measure_option: runner 'rpc' is not known; use 'local' or an object",
        ),
        (
            lambda: measure.request_remote("pi"),
            "no tracker is named; give host and port, or set TVM_TRACKER_HOST and TVM_TRACKER_PORT",
        ),
    ],
)
def test_what_is_refused(make: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TVM_TRACKER_HOST", raising=False)
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == reason


def test_a_tracker_that_does_not_answer() -> None:
    assert not measure.check_remote("llvm", "pi", "127.0.0.1", 1, timeout=0.1)
    with pytest.raises(RelayLayoutError, match=r"^no RPC tracker at 127\.0\.0\.1:1: "):
        measure.request_remote("pi", "127.0.0.1", 1)


@pytest.mark.parametrize(
    ("error", "number"),
    [
        ("", 0),
        ("schedule: no", 1),
        ("build: no", 2),
        ("run: crashed", 4),
        ("result: differs", 5),
        ("build: longer than 30 s", 6),
        ("run: longer than 20 s", 7),
        ("else", 8),
    ],
)
def test_errors_by_their_numbers(error: str, number: int, tasks: list[Task]) -> None:
    seconds = () if error else (1.0, 2.0)
    record = TuningRecord(tasks[0].workload, "x", 1, {}, seconds, error, time="2026-01-02T03:04:05.000+00:00")
    result = measure.outcome(record)
    assert result.error_no == number
    assert result.costs == ((error,) if error else (1.0, 2.0))
    assert result.all_cost == sum(seconds)
    assert result.timestamp == 1767323045.0


def test_a_record_without_a_time(tasks: list[Task]) -> None:
    assert measure.outcome(TuningRecord(tasks[0].workload, "x", 1, {}, (1.0,))).timestamp == 0


def test_gpus_are_given_longer_to_build_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Timing] = []

    def local(target: Any, *, timing: Timing, builders: int | None) -> Opened:
        seen.append(timing)
        return Opened()

    monkeypatch.setattr(measurers, "local_measurer", local)
    with autotvm.measure_option().measurer(resolve_target("cuda-sm_90")):
        assert seen == [USUAL_OF_GPUS]
