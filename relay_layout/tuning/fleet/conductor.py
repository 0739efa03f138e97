"""Starts a worker for every target of a fleet, hears them all, and ends them."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType

from relay_layout import host
from relay_layout.errors import RelayLayoutError
from relay_layout.tuning.fleet.messages import STOP, Failed, Finished, Message
from relay_layout.tuning.fleet.status import FleetStatus, TargetStatus
from relay_layout.tuning.fleet.worker import work
from relay_layout.tuning.job import TuningJob
from topi_ext.tune.measuring.tracker import RemoteDevice, machines

LOOK_SECONDS = 2.0
"""How often the tracker is asked for its boards."""

SHOW_SECONDS = 0.5
_END_SECONDS = 10.0


@dataclass(frozen=True)
class FleetJob:
    """A job, and the boards to do it on."""

    job: TuningJob
    remote: RemoteDevice


def conduct(
    jobs: Sequence[FleetJob],
    *,
    show: Callable[[FleetStatus], None] = lambda status: None,
    tell: Callable[[str], None] = lambda line: None,
    stop: Callable[[], bool] = lambda: False,
) -> FleetStatus:
    """Tune all jobs at once; the picture at the end.

    ``show`` is called every :data:`SHOW_SECONDS`, ``tell`` with lines for people. A job that fails does not
    end the others. All jobs have the same tracker.
    """
    remote = jobs[0].remote
    status = FleetStatus(
        remote.place, [TargetStatus(job.remote.key, job.job.target, str(job.job.log)) for job in jobs]
    )
    builders = max(1, host.cpu_count() // len(jobs))
    with ExitStack() as stack:
        workers = [
            stack.enter_context(_Worker(job, builders, target))
            for job, target in zip(jobs, status.targets, strict=True)
        ]
        try:
            _hear(workers, status, remote, show, tell, stop)
        except BaseException:
            for worker in workers:
                worker.terminate()
            raise
    return status


def _hear(
    workers: "Sequence[_Worker]",
    status: FleetStatus,
    remote: RemoteDevice,
    show: Callable[[FleetStatus], None],
    tell: Callable[[str], None],
    stop: Callable[[], bool],
) -> None:
    """Until every worker has ended."""
    next_look, told_to_stop = 0.0, False
    while working := [worker for worker in workers if not worker.target.ended]:
        if time.monotonic() >= next_look:
            for line in _look(status, remote):
                tell(line)
            next_look = time.monotonic() + LOOK_SECONDS
        if stop() and not told_to_stop:
            told_to_stop = True
            for worker in working:
                worker.stop()
        wait([worker.connection for worker in working], SHOW_SECONDS)
        for worker in working:
            for message in worker.messages():
                if line := status.hear(worker.target, message):
                    tell(line)
        show(status)


def _look(status: FleetStatus, remote: RemoteDevice) -> list[str]:
    try:
        lines = status.see(machines(remote.host, remote.port))
    except RelayLayoutError as error:
        lines = [str(error)] if str(error) != status.tracker_error else []
        status.tracker_error = str(error)
        return lines
    status.tracker_error = ""
    return lines


class _Worker:
    """A worker's process and our end of the pipe to it."""

    def __init__(self, job: FleetJob, builders: int, target: TargetStatus) -> None:
        self.target = target
        self._arguments = (job.job, job.remote, builders)
        self.connection: Connection
        self._process: BaseProcess

    def __enter__(self) -> "_Worker":
        # Not forked: TVM has threads, which a fork would lose with the locks that they hold.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(*self._arguments, theirs))
        self._process.start()
        theirs.close()
        return self

    def messages(self) -> list[Message]:
        """What it has said since; that it failed, where its process ended without a word."""
        found: list[Message] = []
        try:
            while not (found and isinstance(found[-1], Finished | Failed)) and self.connection.poll():
                found.append(self.connection.recv())
        except (EOFError, OSError):
            self._process.join(_END_SECONDS)
            found.append(Failed(f"its process ended with status {self._process.exitcode}", internal=True))
        return found

    def stop(self) -> None:
        """Let it end after the kernels that run now."""
        with suppress(OSError):  # It has ended, which its end of the pipe says.
            self.connection.send(STOP)

    def terminate(self) -> None:
        """Let it end at once; what it has measured is in the log."""
        self._process.terminate()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.connection.close()


__all__ = ["LOOK_SECONDS", "SHOW_SECONDS", "FleetJob", "conduct"]
