"""A real RPC tracker here, and real RPC servers on emulated boards that register with it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.board.root import CPU, BoardRoot
from topi_ext.tune.measuring.tracker import RemoteDevice

KEY = "emulated"
HOST = "127.0.0.1"
_START_SECONDS = 300.0
_STOP_SECONDS = 10.0

_WATCHDOG = 'while read group; do groups="$groups -$group"; done; kill -s KILL -- $groups'
"""Ends the process groups it is told of when its input ends: with tests that were killed themselves."""


class Boards:
    """A tracker and ``count`` boards; a context manager that leaves no process behind.

    ``key`` is that of all boards for which no other is named.
    """

    def __init__(self, root: BoardRoot, count: int, logs: Path, key: str = KEY, cpu: str = CPU) -> None:
        """``logs`` is a folder for what the processes print, ``cpu`` what the boards have."""
        self._cpu = cpu
        self._root = root
        self._count = count
        self._logs = logs
        self._key = key
        self._tracker: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[str] | None = None
        self.servers: list[subprocess.Popen[bytes]] = []
        self.port = 0

    @property
    def remote(self) -> RemoteDevice:
        """Where to borrow one of the boards; waits as long as boards take to run something short."""
        return RemoteDevice(HOST, self.port, self._key, wait=120.0)

    def __enter__(self) -> "Boards":
        try:
            self.port = free_port()
            tracker = ["-m", "tvm.exec.rpc_tracker", f"--host={HOST}", f"--port={self.port}"]
            self._tracker = self._start(
                "tracker", [sys.executable, *tracker, f"--port-end={self.port + 1}"], dict(os.environ)
            )
            self._wait("the tracker", lambda: _answers(self.port), [self._tracker])
            for _ in range(self._count):
                self.add()
            self.wait_for(self._count)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, key: str = "", cpu: str = "") -> str:
        """Start one more board, which registers within seconds; its address. ``cpu`` is what it has."""
        port = free_port()
        words = [str(self._root.python), "-m", "tvm.exec.rpc_server", f"--host={HOST}", f"--port={port}"]
        words += [f"--port-end={port + 1}", f"--tracker={HOST}:{self.port}", f"--key={key or self._key}"]
        server = self._start(
            f"board-{len(self.servers)}", words, self._root.environment(cpu=cpu or self._cpu)
        )
        self.servers.append(server)
        return f"{HOST}:{port}"

    def wait_for(self, count: int, key: str = "") -> None:
        """Until so many boards are free."""
        self._wait(f"{count} boards", lambda: self.free(key) >= count, self.servers)

    def free(self, key: str = "") -> int:
        """How many boards the tracker can lend at once."""
        from tvm import rpc

        queues = rpc.connect_tracker(HOST, self.port).summary()["queue_info"]
        return int(queues.get(key or self._key, {}).get("free", 0))

    def sessions(self, index: int) -> int:
        """How often somebody has connected to a board."""
        return (self._logs / f"board-{index}.log").read_text(encoding="utf-8").count("connected from")

    def kill(self, index: int) -> None:
        """Take a board's power: its processes are gone at once."""
        _end(self.servers[index], signal.SIGKILL)

    def stall(self, index: int) -> None:
        """Let a board hang: connections stay, nothing answers."""
        os.killpg(self.servers[index].pid, signal.SIGSTOP)

    def close(self) -> None:
        """End all processes."""
        for process in [*self.servers, *([self._tracker] if self._tracker else [])]:
            _end(process, signal.SIGKILL)
        if self._watchdog is not None:
            # First, since the groups' numbers may soon be those of others.
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    def groups(self) -> list[int]:
        """The process groups of tracker and boards that still hold a process."""
        started = [*self.servers, *([self._tracker] if self._tracker else [])]
        return [process.pid for process in started if _is_alive(process.pid)]

    def _start(self, name: str, words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        if self._watchdog is None:
            self._watchdog = subprocess.Popen(
                ["sh", "-c", _WATCHDOG], stdin=subprocess.PIPE, text=True, start_new_session=True
            )
        with open(self._logs / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                words,
                env=environment,
                cwd=self._logs,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert self._watchdog.stdin is not None
        print(process.pid, file=self._watchdog.stdin, flush=True)
        return process

    def _wait(self, what: str, ready: Callable[[], bool], processes: list[subprocess.Popen[bytes]]) -> None:
        limit = time.monotonic() + _START_SECONDS
        while not ready():
            if all(process.poll() is not None for process in processes):
                raise RuntimeError(f"{what} ended at once; see {self._logs}")
            if time.monotonic() > limit:
                raise RuntimeError(f"{what} took longer than {_START_SECONDS:.0f} s; see {self._logs}")
            time.sleep(0.2)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server((HOST, 0)) as listening:
        return int(listening.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send the signal to the whole group and wait until none of it is left."""
    limit = time.monotonic() + _STOP_SECONDS
    while _is_alive(process.pid) and time.monotonic() < limit:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        process.poll()
        time.sleep(0.05)
    process.wait()


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
