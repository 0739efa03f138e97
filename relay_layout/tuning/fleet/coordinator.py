"""The coordinator of a fleet: starts a worker process per target, follows their messages, and ends them."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType

from relay_layout.environment import host
from relay_layout.errors import RelayLayoutError
from relay_layout.tuning.fleet.messages import STOP, Failed, Finished, Message
from relay_layout.tuning.fleet.status import FleetStatus, TargetStatus
from relay_layout.tuning.fleet.worker import work
from relay_layout.tuning.job import TuningJob
from topi_ext.tune.measuring.tracker import RemoteDevice, machines

POLL_SECONDS = 2.0
"""How often the tracker is asked for its boards."""

SHOW_SECONDS = 0.5
"""How often the status is shown."""

_END_SECONDS = 10.0
"""How long a worker that was told to end may take before it is killed."""


@dataclass(frozen=True)
class FleetJob:
    """A job, and the boards to do it on."""

    job: TuningJob
    remote: RemoteDevice


def run_fleet(
    jobs: Sequence[FleetJob],
    *,
    show: Callable[[FleetStatus], None] = lambda status: None,
    tell: Callable[[str], None] = lambda line: None,
    stop: Callable[[], bool] = lambda: False,
) -> FleetStatus:
    """Tune all jobs at once, each in a process of its own; returns the final status.

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
            _follow(workers, status, remote, show, tell, stop)
        except BaseException:
            for worker in workers:
                worker.terminate()
            raise
    return status


def _follow(
    workers: "Sequence[_Worker]",
    status: FleetStatus,
    remote: RemoteDevice,
    show: Callable[[FleetStatus], None],
    tell: Callable[[str], None],
    stop: Callable[[], bool],
) -> None:
    """Update and show ``status`` until every worker has ended."""
    next_poll, told_to_stop = 0.0, False
    while working := [worker for worker in workers if not worker.target.ended]:
        if time.monotonic() >= next_poll:
            for line in _update_boards(status, remote):
                tell(line)
            next_poll = time.monotonic() + POLL_SECONDS
        if stop() and not told_to_stop:
            told_to_stop = True
            for worker in working:
                worker.stop()
        wait([worker.connection for worker in working], SHOW_SECONDS)
        for worker in working:
            for message in worker.messages():
                if line := status.update(worker.target, message):
                    tell(line)
        show(status)


def _update_boards(status: FleetStatus, remote: RemoteDevice) -> list[str]:
    try:
        lines = status.update_boards(machines(remote.host, remote.port))
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
        """The messages since the last call; a :class:`Failed` for a process that ended without one."""
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
