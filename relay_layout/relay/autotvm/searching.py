"""What tuners share: the kernels that are known, and the search that measures others."""

from collections.abc import Callable, Iterable
from functools import cache

import tvm

import tuning_logs
from relay_layout.environment.versions import __version__
from relay_layout.relay.autotvm.task import Task
from relay_layout.relay.building.history import logs_applied
from relay_layout.targets import BuildTarget
from relay_layout.targets.records import recorded_kernels
from topi_ext.tune.measuring.measurement import Measurer
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import load
from topi_ext.tune.records.record import Record, TuningRecord, knobs_key
from topi_ext.tune.tuner import Tuner as Search


def known_kernels(target: BuildTarget, history: Iterable[TuningRecord]) -> Database:
    """What the package's logs, those applied and the history hold."""
    machine = target.machine
    applied = recorded_kernels(machine.name, logs_applied(), shipped=False).database
    return Database([*_shipped(), *applied.of_processor(machine), *history])


def known_knobs(database: Database, task: Task, cpu: str) -> set[str]:
    """The kernels of a task that a database has of the processor ``cpu``; they are not measured again."""
    return {
        knobs_key(record.knobs)
        for record in database.records(task.workload, task.resolved().machine)
        if record.cpu == cpu and record.origin == "measured"
    }


def search(
    target: BuildTarget,
    measurer: Measurer,
    database: Database,
    keep: Callable[[TuningRecord], None],
    options: TuneOptions,
) -> Search:
    """The search of a target's kernels from what a database holds; ``keep`` is told of each measurement."""
    database.cpu = measurer.cpu
    versions = {"relay_layout": __version__, "tvm": str(tvm.__version__)}
    return Search(target.machine, measurer, keep, database, options, versions=versions)


@cache
def _shipped() -> tuple[Record, ...]:
    return tuple(load(tuning_logs.paths())[0])
