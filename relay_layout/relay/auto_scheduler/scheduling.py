"""The auto-scheduler's tasks, and its scheduler: all tasks of a network measured in turns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay_layout.errors import InputError
from relay_layout.relay.autotvm.measure import MeasureInput, measure_option, outcome
from relay_layout.relay.autotvm.record import load_from_file
from relay_layout.relay.autotvm.searching import known_kernels, known_knobs, search
from relay_layout.relay.autotvm.task import ConfigEntity, Task, extract_from_program
from relay_layout.relay.autotvm.tuner import Callback
from relay_layout.tuning.measurers import least_batch
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.record import TuningRecord
from topi_ext.tune.task import Task as KernelTask
from topi_ext.tune.tuner import TuneProgress

_STRATEGIES = {"default": "model", "sketch.xgb": "model", "sketch.random": "random"}
"""Ways to search by the names that the auto-scheduler had for them."""


@dataclass(frozen=True)
class ComputeDag:
    """What a task computes, to be printed; ``flop_ct`` counts operations."""

    name: str
    flop_ct: int

    def __str__(self) -> str:
        return f"{self.name}: {self.flop_ct} operations"


@dataclass(frozen=True, repr=False)
class SearchTask(Task):
    """A task as ``autotvm`` has it, with the auto-scheduler's names. :func:`extract_tasks` makes them."""

    @property
    def workload_key(self) -> str:
        """What tells the kernel from all others."""
        return self.workload.to_json()

    @property
    def desc(self) -> str:
        """The name."""
        return self.name

    @property
    def compute_dag(self) -> ComputeDag:
        """What is computed."""
        return ComputeDag(self.name, self.flop)

    def tune(self, tuning_options: TuningOptions, search_policy: Any = None) -> None:
        """Tune this task alone."""
        TaskScheduler([self]).tune(tuning_options, search_policy or "default")


@dataclass(frozen=True)
class TuningOptions:
    """How much is measured, and where.

    ``num_measure_trials`` are kernels of all tasks together; a task ends where ``early_stopping`` of its own
    made it no faster by 1%. Every ``num_measures_per_round`` there is a line of output, unless ``verbose`` is
    0. Builder and runner are those of ``autotvm``, "local" is this machine.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: Any = "local"
    runner: Any = "local"
    measure_callbacks: Sequence[Callback] | None = None


class TaskScheduler:
    """Measures kernels of all tasks, next those of the task that is expected to gain most.

    ``load_log_file`` is a log to go on from; ``task_weights`` say how often each task runs. The fastest few
    of each task are run again beside the default at its end. InputError for ``objective_func``, for weights
    of other tasks, and for tasks of several targets.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        task_weights: Sequence[int] | None = None,
        objective_func: Any = None,
        strategy: str = "gradient",
        load_model_file: Any = None,
        load_log_file: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        if objective_func is not None:
            raise InputError("TaskScheduler: objective_func is not there; give task_weights")
        if not tasks:
            raise InputError("TaskScheduler: there are no tasks; auto_scheduler.extract_tasks gives them")
        weights = [task.weight for task in tasks] if task_weights is None else list(task_weights)
        if len(weights) != len(tasks):
            raise InputError(f"TaskScheduler: there are {len(weights)} task_weights for {len(tasks)} tasks")
        self._target = tasks[0].resolved()
        if any(task.build_target is not self._target for task in tasks):
            raise InputError("TaskScheduler: the tasks are of several targets; tune those of one at a time")
        self._weights = weights
        self.tasks = list(tasks)
        self._history = (
            [] if load_log_file is None else [one.record for one, _ in load_from_file(load_log_file)]
        )

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: Any = "default",
        search_policy_params: Mapping[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Measure, and tell the callbacks of each kernel at once.

        ``search_policy`` is "default" and "sketch.xgb" (by a learned model) or "sketch.random"; InputError
        for another. Raises what :meth:`.MeasureOption.measurer` raises.
        """
        strategy = _STRATEGIES.get(search_policy) if isinstance(search_policy, str) else None
        if strategy is None:
            names = ", ".join(repr(name) for name in _STRATEGIES)
            raise InputError(f"search_policy: policies of your own are not there; give one of {names}")
        total = tune_option.num_measure_trials
        if total < 1:
            raise InputError(f"num_measure_trials is {total}; at least one kernel is measured")
        target, callbacks = self._target, tune_option.measure_callbacks or ()
        by_workload = {task.workload: task for task in self.tasks}

        def tell(record: TuningRecord) -> None:
            given = MeasureInput(by_workload[record.workload], ConfigEntity(record.knobs), record)
            for callback in callbacks:
                callback(self, [given], [outcome(record)])

        with measure_option(tune_option.builder, tune_option.runner).measurer(target) as measurer:
            database = known_kernels(target, self._history)
            known = max(len(known_knobs(database, task, measurer.cpu)) for task in self.tasks)
            options = TuneOptions(
                trials=total + known,
                total_trials=total,
                patience=per_task_early_stopping or tune_option.early_stopping or total + known,
                batch=max(TuneOptions.batch, least_batch(target)),
                strategy=strategy,
            )
            searched = search(target, measurer, database, tell, options)
            if tune_option.verbose:
                searched.progress = _Lines(total, tune_option.num_measures_per_round)
            result = searched.tune(
                [
                    KernelTask(task.name, task.workload, weight)
                    for task, weight in zip(self.tasks, self._weights, strict=True)
                ]
            )
        if tune_option.verbose:
            print(f"{result.measured} measured, {result.failed} failed: {_faster(result.gain)}", flush=True)


def _faster(gain: float) -> str:
    return f"all tasks are {gain:.2f} times as fast as at first"


class _Lines:
    """A line of output after each round."""

    def __init__(self, total: int, each: int) -> None:
        self._total, self._each = total, max(each, 1)
        self._measured = 0

    def __call__(self, progress: TuneProgress) -> None:
        self._measured += 1
        if self._measured % self._each == 0:
            place = f"[{self._measured}/{self._total}]"
            speed = f"{progress.gigaflops:.1f} GFLOPS"
            print(f"{place} {progress.name}: {speed}; {_faster(progress.gain)}", flush=True)


def extract_tasks(
    mod: Any,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    hardware_params: Any = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: Any = None,
    opt_level: int = 3,
    other_targets: Any = None,
) -> tuple[list[SearchTask], list[int]]:
    """The kernels that ``relay.build`` compiles, and how often the network has each.

    Convolutions and products alone are tuned, whatever ``include_simple_tasks`` says; what processors can
    do is known of the target. Raises what ``relay.build`` raises.
    """
    found = extract_from_program(mod, params, target)
    tasks = [SearchTask(task.workload, task.build_target, task.weight) for task in found]
    return tasks, [task.weight for task in tasks]


__all__ = ["ComputeDag", "SearchTask", "TaskScheduler", "TuningOptions", "extract_tasks"]
