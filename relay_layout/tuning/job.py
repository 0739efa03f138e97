"""Tuning models for one target: layout transforms and kernels, into one log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import tvm

import tuning_logs
from relay_layout.environment.versions import __version__
from relay_layout.errors import InputError
from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.targets.records import check_logs
from relay_layout.tuning import tasks
from relay_layout.tuning.measurers import least_batch
from relay_layout.tuning.transforms import transform_function
from relay_layout.tuning.turns import Turns, with_transforms
from topi_ext.tune.measuring.measurement import Measurer
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import Problem, appender
from topi_ext.tune.records.record import Origin
from topi_ext.tune.search import require_packages
from topi_ext.tune.transform_tuner import TransformMeasurer, TransformProgress
from topi_ext.tune.tuner import TuneProgress, Tuner, summary

Tasks = Literal["all", "kernels", "transforms"]


@dataclass(frozen=True)
class TuningJob:
    """What to tune, and the log to append to; what that holds already counts.

    ``models`` are as :func:`relay_layout.convert` takes them, ``precision`` is as there.

    ``layouts`` are options of :func:`relay_layout.convert` without the target, ``records`` the keyword
    arguments of :func:`relay_layout.targets.resolve_target` that say which records to start from.
    """

    models: Sequence[Any]
    log: Path
    target: str = "native"
    threads: int | None = None
    layouts: Mapping[str, Any] = field(default_factory=dict)
    records: Mapping[str, Any] = field(default_factory=dict)
    options: TuneOptions = field(default_factory=TuneOptions)
    tasks: Tasks = "all"
    origin: Origin = "measured"
    precision: str = "fp32"

    def resolved_target(self) -> BuildTarget:
        """The target, with its records. Raises what ``resolve_target`` raises."""
        return resolve_target(self.target, threads=self.threads, precision=self.precision, **self.records)

    def logs(self) -> list[Path]:
        """All logs to start from."""
        shipped = tuning_logs.paths() if self.records.get("shipped_records", True) else []
        own = [self.log] if self.log.exists() else []
        return [*shipped, *map(Path, self.records.get("tuning_records", ())), *own]


@dataclass(frozen=True)
class Listener:
    """Who is told what tuning does; ``stop`` is asked between measurements."""

    tell: Callable[[str], None] = lambda line: None
    problems: Callable[[Sequence[Problem]], None] = lambda problems: None
    kernel: Callable[[TuneProgress], None] = lambda state: None
    transform: Callable[[TransformProgress], None] = lambda state: None
    stop: Callable[[], bool] = lambda: False


@dataclass
class Tuning:
    """A job whose models are read and whose layouts are chosen."""

    job: TuningJob
    target: BuildTarget
    database: Database
    found: tasks.ModelTasks

    @staticmethod
    def prepare(job: TuningJob, target: BuildTarget, listener: Listener) -> "Tuning":
        """What a job is to tune for its resolved target.

        Raises InputError where the models hold nothing to tune, what loading them raises, and
        RelayLayoutError where the strategy needs a package that is not installed.
        """
        if job.tasks != "transforms":
            require_packages(job.options.strategy)
        check_logs([job.log] if job.log.exists() else [])
        database, problems = Database.load(job.logs())
        listener.problems(problems)
        target = with_transforms(target, database)
        tuning = Tuning(job, target, database, tasks.model_tasks(job.models, target, job.layouts))
        for line in tuning.found.notes:
            listener.tell(line)
        if not tuning.found.tasks:
            open_ones = " of fixed sizes; --input-shape gives inputs theirs" if tuning.found.notes else ""
            raise InputError(
                f"there is nothing to tune: the models hold no convolution or dense layer{open_ones}"
            )
        return tuning

    def run(self, measurer: Measurer, listener: Listener) -> dict[str, Any]:
        """Tune until nothing is left, the time is over, or the listener says stop; the report of it.

        The measurer is closed then. Raises OSError where the log cannot be written, and what the measurer
        raises where there is no machine left.
        """
        job, target = self.job, self.target
        self.database.cpu = measurer.cpu
        versions = {"relay_layout": __version__, "tvm": str(tvm.__version__)}
        keep = appender(job.log)
        transforms = TransformMeasurer(
            target.machine,
            measurer,
            keep,
            self.database,
            partial(transform_function, target),
            progress=listener.transform,
            stop=listener.stop,
            versions=versions,
        )
        tuner = Tuner(
            target.machine,
            measurer,
            keep,
            self.database,
            self._options(),
            progress=listener.kernel,
            stop=listener.stop,
            versions=versions,
            origin=job.origin,
        )
        turns = Turns(
            target,
            self.database,
            lambda chosen: tasks.model_tasks(job.models, chosen, job.layouts),
            self.found,
            transforms if job.tasks != "kernels" and job.origin == "measured" else None,
            tuner if job.tasks != "transforms" else None,
            job.options.time_limit,
            listener.stop,
        )
        try:
            result = turns.run()
        finally:
            measurer.close()
        return {
            "log": str(job.log),
            "target": target.name,
            "threads": target.threads,
            "transforms": {"tasks": len(turns.found.transforms), "measured": turns.transforms_measured},
            **summary(result),
        }

    def _options(self) -> TuneOptions:
        options = self.job.options
        return replace(options, batch=max(options.batch, least_batch(self.target)))
