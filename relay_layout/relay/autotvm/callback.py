"""``autotvm.callback``: what is told of each measurement."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from relay_layout.relay.missing import refuser
from topi_ext.tune.records.log import append
from topi_ext.tune.records.record import knobs_key

if TYPE_CHECKING:
    from relay_layout.relay.autotvm.measure import MeasureInput, MeasureResult
    from relay_layout.relay.autotvm.tuner import Callback, Tuner

__getattr__ = refuser(__name__, "tvm.autotvm.callback")

_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def log_to_file(file_out: str | os.PathLike[str] | TextIO, protocol: str = "json") -> Callback:
    """Appends each record to a file, on disk at once; several tuners may share it.

    OSError where it cannot be written.
    """
    if protocol != "json":
        raise ValueError(f"log_to_file: protocol {protocol!r} is not known; use 'json'")

    def keep(tuner: Tuner, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
        for given in inputs:
            if isinstance(file_out, str | os.PathLike):
                append(Path(file_out), given.record)
            else:
                file_out.write(given.record.to_json() + "\n")

    return keep


class progress_bar:
    """Speeds of this and the best kernel, kernels of ``total``, and seconds, on one line of the output.

    Elsewhere than on a terminal there is one line when the task ends.
    """

    def __init__(self, total: int, prefix: str = "", si_prefix: str = "G") -> None:
        if si_prefix not in _PREFIXES:
            raise ValueError(f"progress_bar: si_prefix {si_prefix!r} is not known; use one of K, M, G, T")
        self._total, self._prefix, self._si_prefix = total, prefix, si_prefix
        self._scale = _PREFIXES[si_prefix]
        self._tried: set[str] = set()
        self._current = self._best = 0.0
        self._start = time.monotonic()

    def __call__(self, tuner: Tuner, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
        """Takes in what was measured."""
        for given in inputs:
            self._tried.add(knobs_key(given.record.knobs))
            self._current = given.task.flop / given.record.cost
        self._best = tuner.best_flops
        if sys.stdout.isatty():
            print(f"\r{self._line()}", end="", flush=True)

    def finish(self) -> None:
        """Ends the line."""
        print(f"\r{self._line()}" if sys.stdout.isatty() else self._line(), "Done.", flush=True)

    def _line(self) -> str:
        speeds = f"{self._current / self._scale:7.2f}/{self._best / self._scale:8.2f} {self._si_prefix}FLOPS"
        seconds = time.monotonic() - self._start
        return (
            f"{self._prefix} Current/Best: {speeds} | Progress: ({len(self._tried)}/{self._total}) "
            f"| {seconds:.2f} s"
        )


class Monitor:
    """Keeps the speed of each measurement."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Tuner, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
        """Takes in what was measured."""
        for given, result in zip(inputs, results, strict=True):
            self.scores.append(given.task.flop / given.record.cost)
            self.timestamps.append(result.timestamp)

    def reset(self) -> None:
        """Forget all."""
        self.scores.clear()
        self.timestamps.clear()

    def trial_scores(self) -> Any:
        """Operations a second of each measurement, 0 for those that failed."""
        import numpy as np

        return np.array(self.scores)

    def trial_timestamps(self) -> Any:
        """When each ended, in seconds since 1970."""
        import numpy as np

        return np.array(self.timestamps)
