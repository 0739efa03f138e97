"""What a worker tells the conductor; beside these, progress of the tuners and events of boards."""

from dataclasses import dataclass
from typing import Any

from topi_ext.tune.measuring.boards import BoardEvent
from topi_ext.tune.transform_tuner import TransformProgress
from topi_ext.tune.tuner import TuneProgress

STOP = "stop"
"""The one word that the conductor says to a worker: end after the kernels that run now."""


@dataclass(frozen=True)
class Told:
    """A line for people."""

    line: str


@dataclass(frozen=True)
class Started:
    """Layouts are chosen: how many tasks there are."""

    tasks: int


@dataclass(frozen=True)
class Working:
    """What is measured next."""

    name: str


@dataclass(frozen=True)
class Finished:
    """The report of :meth:`relay_layout.tuning.job.Tuning.run`."""

    report: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """Why the worker could not go on; ``internal`` where that is nobody's mistake but this program's."""

    reason: str
    internal: bool = False


Message = Told | Started | Working | TuneProgress | TransformProgress | BoardEvent | Finished | Failed

__all__ = ["STOP", "Failed", "Finished", "Message", "Started", "Told", "Working"]
