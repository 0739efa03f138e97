"""Messages from a worker to the coordinator; tuners' progress and boards' events are messages as well."""

from dataclasses import dataclass
from typing import Any

from topi_ext.tune.measuring.boards import BoardEvent
from topi_ext.tune.transform_tuner import TransformProgress
from topi_ext.tune.tuner import TuneProgress

STOP = "stop"
"""The one message from the coordinator to a worker: end after the kernels that are running."""


@dataclass(frozen=True)
class LogLine:
    """A line to print."""

    line: str


@dataclass(frozen=True)
class Started:
    """Layouts are chosen, and there are ``tasks`` to tune."""

    tasks: int


@dataclass(frozen=True)
class TaskStarted:
    """The task ``name`` is measured next."""

    name: str


@dataclass(frozen=True)
class Finished:
    """The report of :meth:`relay_layout.tuning.job.Tuning.run`."""

    report: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """The worker ended with an error; ``internal`` marks a defect of this program, not of its input."""

    reason: str
    internal: bool = False


Message = LogLine | Started | TaskStarted | TuneProgress | TransformProgress | BoardEvent | Finished | Failed
