"""The tuner: measures candidates of several tasks, in turns by their expected gain."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from topi_ext.family import Machine
from topi_ext.tune.measuring.measurement import Measurement, Measurer
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.record import Origin, TuningRecord, utc_now
from topi_ext.tune.space import Candidate
from topi_ext.tune.task import Task, TaskState, known_samples

CONFIRM_ROUNDS, CONFIRM_BEST, CONFIRM_TURNS = 3, 3, 3
"""To confirm a result, the best candidates of a task (so many of them) are measured again in so many
rounds, and so many times in case another candidate becomes the best one."""


@dataclass(frozen=True)
class TuneProgress:
    """The progress of tuning.

    ``task`` counts from 1; ``trials`` and ``trials_left`` are of all tasks; ``gigaflops`` is of the task's
    best kernel; ``gain`` is how many times faster the tasks together are than with default knobs;
    ``seconds_left`` is an upper bound, as far as one can be given; ``finished`` tasks need no more trials.
    """

    task: int
    tasks: int
    name: str
    trials: int
    trials_left: int
    gigaflops: float
    gain: float
    seconds_left: float
    finished: int = 0


@dataclass
class TuneResult:
    """What tuning did: states of the tasks, and why it ended ("done", "time limit" or "interrupted").

    ``lost`` counts the kernels that are left out because they lost each machine that ran them. ``runs`` are
    kernels that were run without waiting for any to be built, in ``run_seconds``.
    """

    states: list[TaskState]
    measured: int = 0
    failed: int = 0
    lost: int = 0
    ended: str = "done"
    seconds: float = 0.0
    runs: int = 0
    run_seconds: float = 0.0

    @property
    def gain(self) -> float:
        """How many times faster the tasks are than with default knobs, weighted by their use."""
        known = [state for state in self.states if state.default_seconds < inf and state.best_seconds < inf]
        best = sum(state.task.weight * state.best_seconds for state in known)
        return sum(state.task.weight * state.default_seconds for state in known) / best if best else 1.0


_Batch = tuple[TaskState, list[Candidate]]


@dataclass
class Tuner:
    """Measures kernels and gives every trial to ``keep`` at once, which writes it to a log.

    ``database`` holds what is known already, e.g. what the log holds: trials of this machine count, all
    others are starting points. ``stop`` is asked between trials. ``origin`` is that of the measurer's times.
    """

    processor: Machine
    measurer: Measurer
    keep: Callable[[TuningRecord], None]
    database: Database = field(default_factory=Database)
    options: TuneOptions = field(default_factory=TuneOptions)
    progress: Callable[[TuneProgress], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False
    versions: dict[str, str] = field(default_factory=dict)
    origin: Origin = "measured"
    clock: Callable[[], float] = time.monotonic

    def tune(self, tasks: Sequence[Task]) -> TuneResult:
        """Tune until nothing is left to try, the time is over, or ``stop`` says so.

        Raises what ``keep`` raises; RelayLayoutError where the machine to measure on is gone.
        """
        options = self.options
        workloads = [task.workload for task in tasks]
        shared = known_samples(self.processor, self.database, workloads)
        states = [
            TaskState(
                task,
                self.processor,
                self.database,
                self.measurer.cpu,
                options=options,
                shared=shared,
                origin=self.origin,
            )
            for task in tasks
        ]
        result = TuneResult(states)
        start = self.clock()
        coming: _Batch | None = None
        while result.ended == "done":
            found = coming or self._proposed(result, states)
            if found is None:
                break
            state, batch = found
            coming = self._measure(result, state, batch, start) if batch else None
            if result.ended == "done" and (not batch or self._is_finished(state)):
                state.finished = True
                self._confirm(result, state, start)
            if self.clock() - start >= options.time_limit - self._confirm_seconds(result, start):
                result.ended = "time limit"
        if result.ended == "time limit":
            for state in states:
                self._confirm(result, state, start, turns=1)
        result.seconds = self.clock() - start
        return result

    def _proposed(self, result: TuneResult, states: Sequence[TaskState]) -> _Batch | None:
        """The task and the candidates to measure next; None if all tasks are finished."""
        state = self._next(states)
        if state is None:
            return None
        options = self.options
        left = min(options.trials - state.trials, options.total_trials - result.measured)
        return state, state.propose(int(max(0, min(options.batch, left))))

    def _next(self, states: Sequence[TaskState]) -> TaskState | None:
        """The task with the highest expected gain; None if all tasks are finished."""
        open_states = [state for state in states if not state.finished]
        for state in open_states:
            if self._is_finished(state) and not state.needs_confirmation:
                state.finished = True
        open_states = [state for state in open_states if not state.finished]
        return max(open_states, key=lambda state: state.expected_gain(), default=None)

    def _is_finished(self, state: TaskState) -> bool:
        return state.trials >= self.options.trials or state.stale >= self.options.patience

    def _measure(
        self, result: TuneResult, state: TaskState, batch: Sequence[Candidate], start: float
    ) -> _Batch | None:
        """Measure a batch; returns the next batch if it is being built meanwhile."""
        knobs = [candidate.knobs for candidate in batch]
        measurements = self.measurer.measure(state.task.workload, knobs)
        coming = None
        if self.measurer.builds_ahead:
            coming = self._proposed(result, [other for other in result.states if other is not state])
        if coming is not None:
            self.measurer.build_ahead(coming[0].task.workload, [candidate.knobs for candidate in coming[1]])
        before: float | None = None
        for candidate, measurement in zip(batch, measurements, strict=False):
            # The time of the first one may include waiting for all builds, so only later ones count.
            now = self.clock()
            if before is not None:
                result.runs, result.run_seconds = result.runs + 1, result.run_seconds + now - before
            before = now
            if self.stop():
                # An interrupt may have ended the workers as well, so a failure says nothing of the kernel.
                result.ended = "interrupted"
                if measurement.error:
                    return None
            self._keep(result, state, candidate, measurement)
            self.progress(self._progress(result, state, start))
            if result.ended != "done":
                return None
        return coming

    def _confirm(
        self, result: TuneResult, state: TaskState, start: float, turns: int = CONFIRM_TURNS
    ) -> None:
        """Measure the best few candidates and the default again, until the best one is confirmed.

        The result of the best one is verified; if it is wrong, that is recorded, and the next one is the
        best.
        """
        for _ in range(turns):
            self._drop_wrong(result, state)
            if not state.needs_confirmation or result.ended == "interrupted":
                return
            batch = state.to_confirm(CONFIRM_BEST)
            knobs = [candidate.knobs for candidate in batch]
            measurements = self.measurer.measure(state.task.workload, knobs, CONFIRM_ROUNDS)
            for candidate, measurement in zip(batch, measurements, strict=True):
                if self.stop():
                    result.ended = "interrupted"
                    if measurement.error:
                        return
                self._keep(result, state, candidate, measurement)
            self.progress(self._progress(result, state, start))
        self._drop_wrong(result, state)

    def _drop_wrong(self, result: TuneResult, state: TaskState) -> None:
        while result.ended != "interrupted" and (best := state.unchecked_best) is not None:
            error = self.measurer.result_error(state.task.workload, best.knobs)
            if self.stop():
                # An interrupt may have hit the workers too.
                result.ended = "interrupted"
                return
            state.checked.add(best.key)
            if error:
                self._keep(result, state, best, Measurement((), error))

    def _keep(
        self, result: TuneResult, state: TaskState, candidate: Candidate, measurement: Measurement
    ) -> None:
        if measurement.lost:
            result.lost += 1
            return
        record = TuningRecord(
            workload=state.task.workload,
            processor=self.processor.name,
            threads=self.processor.threads,
            knobs=candidate.fields,
            seconds=measurement.seconds,
            error=measurement.error,
            origin=self.origin,
            cpu=self.measurer.cpu,
            time=utc_now(),
            versions=self.versions,
        )
        self.keep(record)
        self.database.add(record)
        state.tell(candidate, record)
        result.measured += 1
        result.failed += bool(record.error)

    def _progress(self, result: TuneResult, state: TaskState, start: float) -> TuneProgress:
        left = sum(
            int(max(0, min(self.options.trials, other.size) - other.trials))
            for other in result.states
            if not other.finished
        )
        elapsed = self.clock() - start
        # Lost kernels are not counted as measured, so the time per kernel may still be unknown.
        each = elapsed / result.measured if result.measured else inf
        return TuneProgress(
            task=result.states.index(state) + 1,
            tasks=len(result.states),
            name=state.task.name,
            trials=sum(other.trials for other in result.states),
            trials_left=left,
            gigaflops=2e-9 * state.task.workload.macs / state.best_seconds,
            gain=result.gain,
            seconds_left=min(each * left, self.options.time_limit - elapsed),
            finished=sum(other.finished for other in result.states),
        )

    def _confirm_seconds(self, result: TuneResult, start: float) -> float:
        """The estimated seconds that confirming all tasks measured so far will take."""
        if not result.measured:
            return 0.0
        tasks = sum(state.needs_confirmation for state in result.states)
        kernels = tasks * (CONFIRM_BEST + 1) * CONFIRM_ROUNDS
        if result.runs:
            # The kernels are built already, which on a GPU takes far longer than running them.
            return kernels * result.run_seconds / result.runs
        return kernels * (self.clock() - start) / result.measured


def summary(result: TuneResult) -> dict[str, Any]:
    """The fields of a result for a report; times are in microseconds."""
    return {
        "tasks": [
            {
                "name": state.task.name,
                "weight": state.task.weight,
                "workload": json.loads(state.task.workload.to_json()),
                "space": None if state.size == inf else state.size,
                "trials": state.trials,
                "default_us": _microseconds(state.default_seconds),
                "best_us": _microseconds(state.best_seconds),
                "gigaflops": round(2e-9 * state.task.workload.macs / state.best_seconds, 1),
                "knobs": dict(state.best.fields) if state.best is not None else None,
            }
            for state in result.states
        ],
        "measured": result.measured,
        "failed": result.failed,
        "lost": result.lost,
        "gain": round(result.gain, 4),
        "ended": result.ended,
        "seconds": round(result.seconds, 1),
    }


def _microseconds(seconds: float) -> float | None:
    return round(seconds * 1e6, 2) if seconds < inf else None
