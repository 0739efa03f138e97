"""The tuner: order of tasks, resuming, confirming, ending."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from topi_ext.machine.processor import Processor
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import appender, load
from topi_ext.tune.records.record import TuningRecord, knobs_key
from topi_ext.tune.space import Space
from topi_ext.tune.task import Task, TaskState, known_samples
from topi_ext.tune.tuner import TuneProgress, Tuner, TuneResult, summary
from topi_ext.workloads.convolution import ConvolutionWorkload

MakeRecord = Callable[..., TuningRecord]
Squares = Callable[..., ConvolutionWorkload]
MadeUp = Any


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def task(workload: ConvolutionWorkload) -> Task:
    return Task("small", workload)


def tune(processor: Processor, measurer: MadeUp, log: Path, *tasks: Task, **options: Any) -> TuneResult:
    records, _ = load([log]) if log.exists() else ([], [])
    tuner = Tuner(processor, measurer, appender(log), Database(records), TuneOptions(**options))
    return tuner.tune(tasks)


def test_every_trial_is_logged(processor: Processor, measurer: MadeUp, log: Path, task: Task) -> None:
    result = tune(processor, measurer, log, task, trials=12)
    records, problems = load([log])
    assert not problems
    assert len(records) == result.measured
    first = records[0]
    assert (first.workload, first.processor, first.threads) == (task.workload, processor.name, 2)
    assert (first.origin, first.cpu, first.error) == ("measured", "test machine", "")
    assert first.time.endswith("+00:00")
    assert len({knobs_key(record.knobs) for record in records}) == 12


def test_the_default_is_measured_first(processor: Processor, measurer: MadeUp, log: Path, task: Task) -> None:
    tune(processor, measurer, log, task, trials=3, strategy="random")
    records, _ = load([log])
    assert records[0].knobs == Space(task.workload, processor).default.fields


def test_the_best_is_found_and_compared_with_the_default(
    processor: Processor, measurer: MadeUp, log: Path, task: Task, seconds_of: Callable[..., float]
) -> None:
    result = tune(processor, measurer, log, task, trials=1000, patience=1000, strategy="exhaustive")
    (state,) = result.states
    space = Space(task.workload, processor)
    times = {candidate.key: seconds_of(dict(candidate.fields)) for candidate in space.candidates}
    assert state.best is not None
    assert state.best.key == min(times, key=lambda key: times[key])
    assert result.gain == times[space.default.key] / min(times.values())
    assert result.ended == "done"


def test_the_best_few_are_run_again_beside_the_default(
    processor: Processor, measurer: MadeUp, log: Path, task: Task
) -> None:
    result = tune(processor, measurer, log, task, trials=16)
    (state,) = result.states
    often = {key for key, count in measurer.counts.items() if count > 1}
    default = state.space.default
    assert state.best is not None
    assert {f"{task.workload.in_channels} {one.key}" for one in (state.best, default)} <= often
    assert 3 <= len(often) <= 4
    assert not state.needs_confirmation


def test_a_kernel_that_computes_something_else_is_no_winner(
    processor: Processor, measurer_of: type[MadeUp], log: Path, task: Task
) -> None:
    right = tune(processor, measurer_of(), log.with_name("right.jsonl"), task, trials=12).states[0].best
    assert right is not None
    measurer = measurer_of()
    measurer.errors[right.key] = "result: differs by 1e-1 of the largest, 1e-05 are allowed"
    (state,) = tune(processor, measurer, log, task, trials=12).states
    assert state.best is not None
    assert state.best.key != right.key
    assert not state.needs_confirmation
    records, _ = load([log])
    (error,) = [record for record in records if record.error]
    assert (error.error, error.knobs) == (measurer.errors[right.key], right.fields)
    # Nor where the log is read again.
    best = Database(records).best(task.workload, processor)
    assert best is not None
    assert best.knobs == state.best.fields


def test_luck_wins_nothing(processor: Processor, measurer_of: type[MadeUp], log: Path, task: Task) -> None:
    runs: dict[str, int] = {}
    default = Space(task.workload, processor).default.key

    def seconds(knobs: dict[str, Any]) -> float:
        """Every kernel but the default looks good the first time."""
        key = knobs_key(knobs)
        runs[key] = runs.get(key, 0) + 1
        return 1.0 if key == default else 0.5 if runs[key] == 1 else 2.0

    result = tune(processor, measurer_of(seconds), log, task, trials=7)
    (state,) = result.states
    assert state.best is not None
    assert state.best.key == default


def test_tuning_goes_on_where_it_ended(
    processor: Processor, measurer_of: type[MadeUp], log: Path, task: Task
) -> None:
    tune(processor, measurer_of(), log, task, trials=10, patience=100)
    second = measurer_of()
    result = tune(processor, second, log, task, trials=24, patience=100)
    (state,) = result.states
    assert state.trials == 24
    records, _ = load([log])
    assert len({knobs_key(record.knobs) for record in records}) == 24
    singles = [key for key, count in second.counts.items() if count == 1]
    assert len(singles) + sum(key not in singles for key in second.counts) >= 14
    third = measurer_of()
    assert tune(processor, third, log, task, trials=24, patience=100).measured == 0
    assert not third.counts


def test_trials_of_another_machine_are_starting_points(
    processor: Processor, measurer: MadeUp, log: Path, task: Task, make_record: MakeRecord
) -> None:
    space = Space(task.workload, processor)
    chosen = space.candidates[-1]
    database = Database([make_record(1e-6, knobs=dict(chosen.fields), cpu="another")])
    Tuner(processor, measurer, appender(log), database, TuneOptions(trials=2)).tune([task])
    records, _ = load([log])
    assert [record.knobs for record in records[:2]] == [space.default.fields, chosen.fields]


def test_inherited_knobs_are_tried_early(
    processor: Processor, measurer: MadeUp, log: Path, task: Task, make_record: MakeRecord
) -> None:
    space = Space(task.workload, processor)
    chosen = space.candidates[-2]
    inherited = make_record(1e-6, knobs=dict(chosen.fields), origin="inherited", threads=0)
    Tuner(processor, measurer, appender(log), Database([inherited]), TuneOptions(trials=2)).tune([task])
    records, _ = load([log])
    assert chosen.fields in [record.knobs for record in records[:2]]


def test_the_best_knobs_of_other_processors_are_tried_early(
    processor: Processor, measurer: MadeUp, log: Path, task: Task, make_record: MakeRecord
) -> None:
    """Those of the same machine first, then others; not those that this processor has no kernel for."""
    space = Space(task.workload, processor)
    far, near, slow = space.candidates[-1], space.candidates[-2], space.candidates[-3]
    elsewhere = [
        make_record(1e-6, knobs=dict(far.fields), processor="one", cpu="another machine"),
        make_record(2e-6, knobs=dict(slow.fields), processor="two"),
        make_record(1e-6, knobs=dict(near.fields), processor="two", cpu="test machine"),
        make_record(1e-6, knobs=dict(near.fields) | {"tile_pixels": 1000}, processor="three"),
    ]
    Tuner(processor, measurer, appender(log), Database(elsewhere), TuneOptions(trials=3)).tune([task])
    records, _ = load([log])
    assert [record.knobs for record in records[:3]] == [space.default.fields, near.fields, far.fields]


def test_a_task_ends_when_nothing_gets_better(
    processor: Processor, measurer_of: type[MadeUp], log: Path, task: Task
) -> None:
    result = tune(processor, measurer_of(lambda knobs: 1e-3), log, task, trials=100, patience=10, batch=4)
    (state,) = result.states
    assert 11 <= state.trials < 11 + 4


def test_all_tasks_end_when_so_much_was_measured(
    processor: Processor, measurer: MadeUp, log: Path, squares: Squares
) -> None:
    tasks = [Task("small", squares(16, 7)), Task("large", squares(64, 28))]
    result = tune(processor, measurer, log, *tasks, trials=100, patience=100, batch=4, total_trials=24)
    assert sum(state.trials for state in result.states) == 24
    assert result.ended == "done"
    assert not any(state.needs_confirmation for state in result.states)


def test_failures_are_logged_and_count(
    processor: Processor, measurer_of: type[MadeUp], log: Path, task: Task
) -> None:
    result = tune(processor, measurer_of(lambda knobs: inf), log, task, trials=5)
    records, _ = load([log])
    assert [record.error for record in records] == ["run: no luck"] * 5
    assert (result.measured, result.failed, result.gain) == (5, 5, 1.0)
    report = summary(result)["tasks"][0]
    assert (report["best_us"], report["default_us"], report["knobs"]) == (None, None, None)


def test_a_space_that_is_exhausted_ends_its_task(processor: Processor, measurer: MadeUp, log: Path) -> None:
    dense = ConvolutionWorkload(
        1, 64, 64, 1, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, "WC", "OI16o", "WC", "float32", "float32"
    )
    result = tune(processor, measurer, log, Task("dense", dense), trials=1000)
    (state,) = result.states
    assert state.trials == len(state.space) < 10


def test_all_tasks_get_a_first_batch_then_the_promising_ones(
    processor: Processor, measurer: MadeUp, log: Path, squares: Squares
) -> None:
    tasks = [
        Task("light", squares(16, 7)),
        Task("heavy", squares(64, 28), weight=50),
        Task("medium", squares(32, 14)),
    ]
    seen: list[str] = []
    options = TuneOptions(trials=24, batch=4, patience=100)
    tuner = Tuner(
        processor, measurer, appender(log), Database(), options, lambda state: seen.append(state.name)
    )
    tuner.tune(tasks)
    firsts = list(dict.fromkeys(seen))
    assert firsts == ["heavy", "medium", "light"]
    # 12 trials are the first batches.
    assert seen[12:16] == ["heavy"] * 4


def test_progress_tells_where_it_stands(
    processor: Processor, measurer: MadeUp, log: Path, task: Task
) -> None:
    states: list[TuneProgress] = []
    ticks = iter(range(1000))
    tuner = Tuner(
        processor,
        measurer,
        appender(log),
        options=TuneOptions(trials=6),
        progress=states.append,
        clock=lambda: float(next(ticks)),
    )
    result = tuner.tune([task])
    assert [state.trials for state in states[:6]] == [1, 2, 3, 4, 5, 6]
    assert [state.trials_left for state in states[:6]] == [5, 4, 3, 2, 1, 0]
    assert (states[0].task, states[0].tasks, states[0].name) == (1, 1, "small")
    assert states[0].gain == 1.0
    assert states[0].gigaflops == 2e-9 * task.workload.macs / result.states[0].default_seconds
    assert states[0].seconds_left > states[4].seconds_left > 0
    assert states[-1].gain == result.gain


def test_a_time_limit_leaves_time_to_confirm(
    processor: Processor, measurer: MadeUp, log: Path, squares: Squares
) -> None:
    now = 0.0

    def clock() -> float:
        return now

    def advance(state: TuneProgress) -> None:
        nonlocal now
        now += 1.0

    tasks = [Task("a", squares(32, 14)), Task("b", squares(64, 14))]
    options = TuneOptions(trials=1000, patience=1000, time_limit=60.0, batch=4)
    tuner = Tuner(processor, measurer, appender(log), Database(), options, advance, clock=clock)
    result = tuner.tune(tasks)
    assert result.ended == "time limit"
    assert result.seconds <= 60.0
    assert not any(state.needs_confirmation for state in result.states)


def test_a_stop_keeps_what_was_measured(
    processor: Processor, measurer: MadeUp, log: Path, task: Task
) -> None:
    counts: list[int] = []
    tuner = Tuner(
        processor,
        measurer,
        appender(log),
        options=TuneOptions(trials=100),
        progress=lambda state: counts.append(state.trials),
        stop=lambda: len(counts) >= 5,
    )
    result = tuner.tune([task])
    records, _ = load([log])
    assert result.ended == "interrupted"
    assert len(records) == result.measured == 6


def test_a_failure_while_stopping_is_not_the_kernels(
    processor: Processor, measurer_of: type[MadeUp], log: Path, task: Task
) -> None:
    tuner = Tuner(processor, measurer_of(lambda knobs: inf), appender(log), stop=lambda: True)
    result = tuner.tune([task])
    assert (result.ended, result.measured) == ("interrupted", 0)
    assert not log.exists()


def test_a_log_that_cannot_be_written_is_an_error(
    processor: Processor, measurer: MadeUp, tmp_path: Path, task: Task
) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing/log\.jsonl"):
        tune(processor, measurer, tmp_path / "missing" / "log.jsonl", task)


def test_known_samples_are_of_other_workloads(
    processor: Processor, workload: ConvolutionWorkload, make_record: MakeRecord, squares: Squares
) -> None:
    other = replace(make_record(1.0), workload=squares(64, 14))
    fields = dict(Space(other.workload, processor).default.fields)
    database = Database([make_record(1.0), replace(other, knobs=fields), replace(other, knobs={"x": 1})])
    shared = known_samples(processor, database, [workload])
    (samples,) = shared.others(shared.new())
    assert samples.seconds == [1.0]


def test_gain_is_expected_where_there_is_much_to_gain(
    processor: Processor, squares: Squares, make_record: MakeRecord
) -> None:
    states = []
    for weight, seconds in ((1, 1e-3), (1, 4e-3), (10, 1e-3)):
        state = TaskState(Task("any", squares(32, 14), weight), processor, Database(), "test machine")
        assert state.expected_gain() > 1e9
        state.propose(1)
        state.tell(state.space.default, make_record(seconds, knobs=dict(state.space.default.fields)))
        states.append(state)
    gains = [state.expected_gain() for state in states]
    assert gains == sorted(gains)
    assert gains[0] < gains[1] < gains[2] < 1e9


def test_kernels_that_lose_every_machine_are_left_out(
    processor: Processor, log: Path, task: Task, measurer_of: type[MadeUp]
) -> None:
    class Losing(measurer_of):
        def measure(self, workload: Any, knobs: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
            for _ in knobs:
                yield Measurement((), lost=True)

    told: list[TuneProgress] = []
    options = TuneOptions(trials=2, batch=2, time_limit=60.0)
    tuner = Tuner(processor, Losing(), appender(log), Database(), options, told.append, lambda: len(told) > 1)
    result = tuner.tune([task])
    assert result.measured == 0 and result.lost >= 2
    assert 0 < told[0].seconds_left <= 60
    assert not log.exists()


def test_kernels_of_the_next_task_are_built_while_others_run(
    processor: Processor, log: Path, squares: Squares, measurer_of: type[MadeUp]
) -> None:
    asked: list[tuple[str, int]] = []

    class Ahead(measurer_of):
        builds_ahead = True

        def measure(self, workload: Any, knobs: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
            asked.append(("measure", workload.in_channels))
            return super().measure(workload, knobs, rounds)

        def build_ahead(self, workload: Any, knobs: Sequence[Any]) -> None:
            asked.append(("build", workload.in_channels))

    tuner = Tuner(processor, Ahead(), appender(log), Database(), TuneOptions(trials=4, batch=4))
    tuner.tune([Task("large", squares(64, 14)), Task("small", squares(32, 14))])
    first = asked.index(("measure", 64))
    assert asked[first + 1] == ("build", 32)
    assert ("measure", 32) in asked[first + 2 :]
