"""Where the auto-scheduler's scripts measure, and where they keep what was measured."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

from relay_layout.errors import InputError
from relay_layout.relay.autotvm.callback import log_to_file
from relay_layout.relay.autotvm.measure import LocalBuilder, MeasureInput, MeasureResult, RPCRunner
from relay_layout.relay.autotvm.measure import LocalRunner as _Runner
from relay_layout.relay.autotvm.record import load_from_file
from relay_layout.relay.autotvm.tuner import Callback
from relay_layout.relay.building.history import apply_history_best
from topi_ext.tune.measuring.timing import USUAL

_FilePath = str | os.PathLike[str]


def LocalRunner(
    timeout: float | None = None,
    number: int = 3,
    repeat: int = USUAL.repeats,
    min_repeat_ms: int = 0,
    cooldown_interval: float = 0.0,
    enable_cpu_cache_flush: bool = False,
    device: int = 0,
) -> _Runner:
    """Runs kernels here, as ``autotvm.LocalRunner``. InputError for another ``device`` than the first."""
    if device != 0:
        raise InputError(f"LocalRunner: device {device} is not tuned on; name it in $CUDA_VISIBLE_DEVICES")
    return _Runner(timeout, number, repeat, min_repeat_ms)


class LocalRPCMeasureContext:
    """Runs kernels here, each in a process of its own: its ``runner`` is a :func:`LocalRunner`.

    ``priority`` and ``n_parallel`` are not needed. InputError as :func:`LocalRunner`.
    """

    def __init__(
        self,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float | None = None,
        number: int = 3,
        repeat: int = USUAL.repeats,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        self.runner = LocalRunner(timeout, number, repeat, min_repeat_ms, device=device)


def RecordToFile(filename: _FilePath = "auto_scheduler_tuning.json") -> Callback:
    """Appends each record to a file, on disk at once. OSError where it cannot be written."""
    return log_to_file(filename)


def ApplyHistoryBest(
    records: _FilePath | list[_FilePath] | None,
    n_lines: int | None = None,
    include_compatible: bool = False,
) -> AbstractContextManager[None]:
    """The kernels of a log, or of several, around ``relay.build``: ``autotvm.apply_history_best``.

    InputError for ``n_lines``. Records of other processors are starting points alone, whatever
    ``include_compatible`` says.
    """
    if n_lines is not None:
        raise InputError("ApplyHistoryBest: a part of a log cannot be applied; leave n_lines out")
    return apply_history_best(records)


def load_records(filename: _FilePath) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The kernels of a log in order. InputError for what is no log; OSError where it cannot be read."""
    return load_from_file(filename)


__all__ = [
    "ApplyHistoryBest",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "RPCRunner",
    "RecordToFile",
    "load_records",
]
