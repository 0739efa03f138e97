"""``autotvm.tuner``: searches through the kernels of one task."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from relay_layout.errors import InputError
from relay_layout.relay.autotvm.measure import MeasureInput, MeasureOption, MeasureResult, outcome
from relay_layout.relay.autotvm.searching import known_kernels, known_knobs, search
from relay_layout.relay.autotvm.task import ConfigEntity, Task
from relay_layout.relay.missing import refuser
from relay_layout.tuning.measurers import least_batch
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.ranking import rank_records
from topi_ext.tune.records.record import TuningRecord, knobs_key
from topi_ext.tune.task import Task as KernelTask

__getattr__ = refuser(__name__, "tvm.autotvm.tuner")

Callback = Callable[[Any, list[MeasureInput], list[MeasureResult]], None]


class Tuner:
    """Measures kernels of a task, and tells callbacks of each as soon as it is measured.

    The fastest few are run again beside the default at the end, and the result of the one that wins is
    compared with the default's; callbacks are told of that as well.
    """

    strategy: ClassVar[str]
    """One of :data:`topi_ext.tune.search.STRATEGIES`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._history: list[TuningRecord] = []
        self._records: list[TuningRecord] = []

    @property
    def best_config(self) -> ConfigEntity | None:
        """The knobs of the fastest kernel; None before one ran."""
        best = self._best()
        return None if best is None else ConfigEntity(best.knobs)

    @property
    def best_flops(self) -> float:
        """Operations a second of the fastest kernel; 0 before one ran."""
        best = self._best()
        return 0.0 if best is None else self.task.flop / best.cost

    @property
    def best_iter(self) -> int:
        """The trial that found the fastest kernel, from 0."""
        best = self._best()
        tried = list(dict.fromkeys(knobs_key(record.knobs) for record in self._records))
        return 0 if best is None else tried.index(knobs_key(best.knobs))

    def _best(self) -> TuningRecord | None:
        return next(iter(rank_records(self._records)), None)

    def load_history(
        self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 0
    ) -> None:
        """Learn from what was measured before, of this task and of others, if there are so many records."""
        found = [given.record for given, _ in data_set]
        if len(found) >= min_seed_records:
            self._history += found

    def reset(self) -> None:
        """Forget what was measured."""
        self._records.clear()

    def tune(
        self,
        n_trial: int,
        measure_option: MeasureOption,
        early_stopping: int | None = None,
        callbacks: Sequence[Callback] = (),
        si_prefix: str = "G",
    ) -> None:
        """Measure ``n_trial`` kernels, fewer where ``early_stopping`` of them made it no faster by 1%.

        Kernels that logs have of this machine (those applied, and what was loaded) are not measured again.
        Raises what :meth:`MeasureOption.measurer` raises, and RelayLayoutError where all boards are lost.
        """
        if n_trial < 1:
            raise InputError(f"tune: n_trial is {n_trial}; at least one kernel is measured")
        if not isinstance(measure_option, MeasureOption):
            raise InputError(
                "tune: measure_option is what autotvm.measure_option(builder=..., runner=...) gives, not "
                f"a {type(measure_option).__name__}"
            )
        target = self.task.resolved()
        with measure_option.measurer(target) as measurer:
            database = known_kernels(target, self._history)
            trials = n_trial + len(known_knobs(database, self.task, measurer.cpu))
            options = TuneOptions(
                trials=trials,
                patience=early_stopping or trials,
                batch=max(TuneOptions.batch, least_batch(target)),
                strategy=self.strategy,
            )
            found = search(target, measurer, database, lambda record: self._tell(record, callbacks), options)
            found.tune([KernelTask(self.task.name, self.task.workload, self.task.weight)])
        for callback in callbacks:
            finish = getattr(callback, "finish", None)
            if finish is not None:
                finish()

    def _tell(self, record: TuningRecord, callbacks: Sequence[Callback]) -> None:
        self._records.append(record)
        given = MeasureInput(self.task, ConfigEntity(record.knobs), record)
        for callback in callbacks:
            callback(self, [given], [outcome(record)])


class XGBTuner(Tuner):
    """By a learned model (xgboost) of what is fast; AutoTVM's options of its own model mean nothing here."""

    strategy = "model"

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
    ) -> None:
        super().__init__(task)


class GATuner(Tuner):
    """By children of the fastest kernels; sizes of the population are those of the search."""

    strategy = "genetic"

    def __init__(
        self, task: Task, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1
    ) -> None:
        super().__init__(task)


class RandomTuner(Tuner):
    """At random."""

    strategy = "random"

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        _check_range(range_idx)
        super().__init__(task)


class GridSearchTuner(Tuner):
    """All kernels, those of the least estimated time first."""

    strategy = "exhaustive"

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        _check_range(range_idx)
        super().__init__(task)


def _check_range(range_idx: tuple[int, int] | None) -> None:
    if range_idx is not None:
        raise InputError("range_idx: a part of a space cannot be tuned alone; leave it out, and set n_trial")
