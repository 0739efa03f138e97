"""The auto-scheduler's scripts: tasks, how much is measured, and what becomes of it."""

from pathlib import Path
from typing import Any

import pytest
import tvm
from tuning_harness import MadeUp, network

from relay_layout.errors import InputError
from relay_layout.relay import auto_scheduler, autotvm
from relay_layout.relay.building.history import logs_applied
from topi_ext.tune.records.record import knobs_key

Extracted = tuple[list[Any], list[int]]


def tune(extracted: Extracted, log: Path, trials: int, **options: Any) -> list[Any]:
    """What a log holds after so many trials."""
    tuner = auto_scheduler.TaskScheduler(*extracted)
    tuner.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=trials,
            runner=auto_scheduler.LocalRunner(repeat=2, enable_cpu_cache_flush=True),
            measure_callbacks=[auto_scheduler.RecordToFile(log)],
            **options,
        )
    )
    return list(auto_scheduler.load_records(log))


def test_tasks_are_those_of_autotvm(extracted: Extracted) -> None:
    tasks, weights = extracted
    known = autotvm.task.extract_from_program(network()["main"], target="llvm -mcpu=x86-64-v3")
    assert [task.name for task in tasks] == [task.name for task in known]
    assert weights == [task.weight for task in known]
    assert len({task.workload_key for task in tasks}) == len(tasks)
    assert str(tasks[0].compute_dag) == f"{tasks[0].desc}: {known[0].flop} operations"
    assert tasks[0].compute_dag.flop_ct == known[0].flop


def test_all_tasks_are_measured_in_turns(extracted: Extracted, made_up: MadeUp, tmp_path: Path) -> None:
    found = tune(extracted, tmp_path / "log.jsonl", 60)
    tried = {(given.task.name, knobs_key(given.config.knobs)) for given, _ in found}
    assert {name for name, _ in tried} == {task.name for task in extracted[0]}
    # A batch may be under way when the last trial is counted, and the best are confirmed.
    assert 40 <= len(tried) <= 68


def test_a_task_ends_where_nothing_gets_faster(extracted: Extracted, made_up: MadeUp, tmp_path: Path) -> None:
    few = tune(extracted, tmp_path / "few.jsonl", 400, early_stopping=4)
    assert len({knobs_key(given.config.knobs) for given, _ in few}) < 200


def test_lines_of_output(
    extracted: Extracted, made_up: MadeUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tune(extracted, tmp_path / "log.jsonl", 24, num_measures_per_round=8)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[8/24] ")
    assert lines[-1].endswith(" times as fast as at first")
    tune(extracted, tmp_path / "quiet.jsonl", 8, verbose=0)
    assert capsys.readouterr().out == ""


def test_a_log_is_gone_on_from(extracted: Extracted, made_up: MadeUp, tmp_path: Path) -> None:
    before = tune(extracted, tmp_path / "log.jsonl", 24)
    tuner = auto_scheduler.TaskScheduler(*extracted, load_log_file=tmp_path / "log.jsonl")
    again = tmp_path / "again.jsonl"
    options = auto_scheduler.TuningOptions(
        24, verbose=0, measure_callbacks=[auto_scheduler.RecordToFile(again)]
    )
    tuner.tune(options, search_policy="sketch.random")
    keys = [
        {(given.task.workload, knobs_key(given.config.knobs)) for given, _ in found}
        for found in (before, auto_scheduler.load_records(again))
    ]
    # Only the best are measured again.
    assert len(keys[1] & keys[0]) < len(keys[1]) / 2


def test_one_task_alone(extracted: Extracted, made_up: MadeUp, tmp_path: Path) -> None:
    log = tmp_path / "one.jsonl"
    task = extracted[0][1]
    options = auto_scheduler.TuningOptions(8, verbose=0, measure_callbacks=[auto_scheduler.RecordToFile(log)])
    task.tune(options)
    assert {given.task.name for given, _ in auto_scheduler.load_records(log)} == {task.name}


def test_a_log_is_applied() -> None:
    with auto_scheduler.ApplyHistoryBest("some.jsonl", include_compatible=True):
        assert logs_applied() == ("some.jsonl",)
    assert logs_applied() == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda tasks: auto_scheduler.TaskScheduler(tasks, objective_func=sum),
            "objective_func is not there",
        ),
        (lambda tasks: auto_scheduler.TaskScheduler([]), "there are no tasks"),
        (lambda tasks: auto_scheduler.TaskScheduler(tasks, [1]), "there are 1 task_weights for 2 tasks"),
        (
            lambda tasks: auto_scheduler.TaskScheduler(tasks).tune(auto_scheduler.TuningOptions()),
            "num_measure_trials is 0; at least one kernel is measured",
        ),
        (
            lambda tasks: auto_scheduler.TaskScheduler(tasks).tune(auto_scheduler.TuningOptions(8), [tasks]),
            "policies of your own are not there; give one of 'default', 'sketch.xgb', 'sketch.random'",
        ),
        (lambda tasks: auto_scheduler.LocalRPCMeasureContext(device=1), "device 1 is not tuned on"),
        (lambda tasks: auto_scheduler.ApplyHistoryBest("a", 3), "leave n_lines out"),
        (
            lambda tasks: auto_scheduler.TaskScheduler(
                [tasks[0], *auto_scheduler.extract_tasks(network(), None, tvm.target.Target("llvm"))[0]]
            ),
            "the tasks are of several targets",
        ),
    ],
)
def test_what_is_refused(make: Any, message: str, extracted: Extracted) -> None:
    with pytest.raises(InputError, match=message):
        make(extracted[0])


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'SketchPolicy': kernels and how they are"):
        _ = auto_scheduler.SketchPolicy
