"""The parent's end of a worker process, in which one runtime is measured.

A process each, since runtimes share no threads and no settings then, and one that dies or hangs ends its own
measurement alone. Requests and replies are lines of JSON (:mod:`relay_layout.bench.workers.worker`).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import relay_layout
from relay_layout.errors import RelayLayoutError

PREPARE_TIMEOUT_S = 1800.0
RUN_TIMEOUT_S = 600.0

_LINES_OF_STANDARD_ERROR = 3


class PeerError(RelayLayoutError):
    """A peer that could not be prepared, failed, hung or died; the message says which and how."""


def worker_environment(threads: int) -> dict[str, str]:
    """The environment of a worker: equal thread counts, and this same package importable.

    Processor affinity is left alone: each runtime places its threads as it does by default.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TVM_NUM_THREADS": str(threads)}
    root = str(Path(relay_layout.__file__).resolve().parents[1])
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        paths = [root, environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment


class WorkerProcess:
    """Starts a worker for a peer, asks it, and ends it; use as a context manager."""

    def __init__(self, peer: str, threads: int) -> None:
        self.peer = peer
        self.threads = threads
        # A file, not a pipe: nobody has to drain it for the worker to go on.
        self._standard_error = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "relay_layout.bench.workers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._standard_error,
            text=True,
            encoding="utf-8",
            env=worker_environment(threads),
        )
        self._replies: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read_replies, daemon=True)
        self._reader.start()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def prepare(
        self,
        model: Path,
        inputs: Path,
        input_names: list[str],
        outputs: Path,
        timeout: float = PREPARE_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Compile and run once; the outputs come in the npz file ``outputs``.

        Returns ``version`` and ``prepare_seconds``. Raises PeerError where it failed, died, or took longer
        than ``timeout`` seconds.
        """
        request = {
            "command": "prepare",
            "peer": self.peer,
            "model": str(model),
            "threads": self.threads,
            "inputs": str(inputs),
            "input_names": input_names,
            "outputs": str(outputs),
        }
        return self._ask(request, "preparing", timeout)

    def run(self, settle: int, repeats: int, timeout: float = RUN_TIMEOUT_S) -> list[float]:
        """Run ``settle`` times untimed, then ``repeats`` times; returns the seconds of each of these.

        Raises PeerError where it failed, died, or took longer than ``timeout`` seconds.
        """
        request = {"command": "run", "settle": settle, "repeats": repeats}
        return list(self._ask(request, "running", timeout)["seconds"])

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._standard_error):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # a request that a dead worker never read
                    stream.close()

    def _ask(self, request: dict[str, Any], doing: str, timeout: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._replies.get(timeout=timeout)
        except BrokenPipeError:
            line = None
        except queue.Empty:
            self._process.kill()
            raise PeerError(f"{self.peer}: no answer within {timeout:g} s while {doing}") from None
        if line is None:
            raise PeerError(f"{self.peer}: {self._death()} while {doing}{self._last_words()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise PeerError(_with_name(self.peer, reply["error"]))
        return reply

    def _read_replies(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._replies.put(line)
        self._replies.put(None)

    def _death(self) -> str:
        code = self._process.wait()
        if code >= 0:
            return f"the worker ended with exit status {code}"
        try:
            return f"the worker was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"the worker was killed by signal {-code}"

    def _last_words(self) -> str:
        self._standard_error.seek(0)
        lines = self._standard_error.read().decode(errors="replace").splitlines()
        last = [line.strip() for line in lines if line.strip()][-_LINES_OF_STANDARD_ERROR:]
        return ": " + " | ".join(last) if last else ""


def _with_name(peer: str, message: str) -> str:
    return message if message.startswith(f"{peer}:") else f"{peer}: {message}"
