"""A process that runs kernels here, which one may crash or hang."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from topi_ext.messages import last_line
from topi_ext.tune.measuring import workers
from topi_ext.tune.measuring.library import Library
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.measuring.timing import Timing, too_long

GRACE = 5.0
"""Seconds after which a process ends itself that does not say that it took too long: one in which a kernel
hangs while the interpreter is locked cannot."""


class Process:
    """Is replaced after anything that goes wrong in it: a GPU that a kernel has crashed refuses whatever else
    the same process asks of it.

    It starts with the first question.
    """

    def __init__(self, prepare: Callable[[], None], *, tells: bool = False) -> None:
        """``prepare`` is called in each that starts; ``tells``: whether what it writes to stderr is shown.

        ImportError where a package is missing.
        """
        from tvm.support.popen_pool import PopenWorker

        self._worker = PopenWorker(prepare, stderr=None if tells else subprocess.DEVNULL)

    def ask(self, function: Callable[..., Any], *arguments: Any, limit: float) -> Any:
        """What the function returns there; raises TimeoutError after ``limit`` seconds, ChildProcessError
        where the process ends, and whatever the function raises.
        """
        try:
            self._worker.send(_ended_after, (limit + GRACE, function, arguments), timeout=limit)
            return self._worker.recv()
        except Exception:
            self._worker.kill()
            raise

    def close(self) -> None:
        """End it."""
        self._worker.kill()


class LocalRunner:
    """Runs kernels in a process, one after the other; what goes wrong there is an error of its kernel."""

    def __init__(
        self, process: Process, run_here: Callable[[Library, int, int], Sequence[float]], timing: Timing
    ) -> None:
        """``run_here`` gives the seconds of a library, for repeats and the milliseconds of each."""
        self._process = process
        self._run_here = run_here
        self._timing = timing

    def run(self, kernels: Sequence[Library]) -> Iterator[Measurement]:
        """One measurement for each kernel in order, each as soon as it is there."""
        repeats, min_repeat_ms = self._timing.repeats, self._timing.min_repeat_ms
        limit = self._timing.run_timeout
        for kernel in kernels:
            try:
                times = self._process.ask(self._run_here, kernel, repeats, min_repeat_ms, limit=limit)
                yield Measurement(tuple(times))
            except TimeoutError:
                yield Measurement((), too_long("run", limit))
            except Exception as error:
                yield Measurement((), f"run: {last_line(str(error))}")

    def close(self) -> None:
        """End the process."""
        self._process.close()


def _ended_after(seconds: float, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with workers.ended_after(seconds):
        return function(*arguments)
