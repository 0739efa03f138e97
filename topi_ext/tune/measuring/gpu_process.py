"""A process that uses the GPU, which a kernel may crash or hang."""

import subprocess
from collections.abc import Callable
from typing import Any

from topi_ext.tune.measuring import gpu_workers, workers

GRACE = 5.0
"""Seconds after which a process ends itself that does not say that it took too long: one in which a kernel
hangs while the interpreter is locked cannot."""


class GpuProcess:
    """Is replaced after anything that goes wrong in it: a GPU that a kernel has crashed refuses whatever else
    the same process asks of it.
    """

    def __init__(self, *, tells: bool = False) -> None:
        """``tells``: whether what it writes to stderr is shown. ImportError where a package is missing."""
        from tvm.support.popen_pool import PopenWorker

        self._worker = PopenWorker(gpu_workers.prepare, stderr=None if tells else subprocess.DEVNULL)

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


def _ended_after(seconds: float, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with workers.ended_after(seconds):
        return function(*arguments)
