"""A process of its own for one peer and one model: ``python -m relay_layout.bench.workers.worker``.

Requests come as JSON lines on standard input, one reply each goes to standard output, and the process
ends with its standard input:

- ``{"command": "prepare", "peer", "model", "threads", "inputs", "input_names", "outputs"}`` compiles
  the model, runs it once on the arrays of the npz file ``inputs`` (in the order of ``input_names``) and
  writes what it returned to the npz file ``outputs``. Reply: ``{"version", "prepare_seconds"}``.
- ``{"command": "run", "settle", "repeats"}`` runs ``settle`` times untimed, then ``repeats`` times timed.
  Reply: ``{"seconds": [...]}``, sent only when the process uses no processor any more.

The reply to a request that failed is ``{"error": MESSAGE}``.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from relay_layout.bench.peers import Run, find_peer
from relay_layout.errors import RelayLayoutError
from topi_ext.messages import first_line

Clock = Callable[[], float]


class Worker:
    """Answers requests for one prepared model."""

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._network: Run | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request; an exception becomes an error reply."""
        try:
            if request["command"] == "prepare":
                return self._prepare(request)
            return {"seconds": self._run(int(request["settle"]), int(request["repeats"]))}
        except RelayLayoutError as error:
            return {"error": str(error)}
        except Exception as error:  # whatever a peer raises is its own failure, not the benchmark's
            return {"error": f"{type(error).__name__}: {first_line(error)}"}

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        peer = find_peer(request["peer"])
        with np.load(request["inputs"]) as stored:
            inputs = {name: stored[f"arr_{index}"] for index, name in enumerate(request["input_names"])}
        start = self._clock()
        self._network = peer.prepare(Path(request["model"]), int(request["threads"]))(inputs)
        outputs = self._network()
        seconds = self._clock() - start
        np.savez(request["outputs"], *(np.asarray(output) for output in outputs))
        return {"version": peer.version(), "prepare_seconds": seconds}

    def _run(self, settle: int, repeats: int) -> list[float]:
        if self._network is None:
            raise RuntimeError("run before prepare")
        for _ in range(settle):
            self._network()
        return time_runs(self._network, repeats, self._clock)


def time_runs(run: Callable[[], object], repeats: int, clock: Clock = time.perf_counter) -> list[float]:
    """How long each of ``repeats`` calls took, in seconds."""
    result = []
    for _ in range(repeats):
        start = clock()
        run()
        result.append(clock() - start)
    return result


def wait_until_quiet(limit: float = 1.0, window: float = 0.02) -> None:
    """Return when this process's threads have stopped spinning, at the latest after ``limit`` seconds.

    Thread pools spin for a while after their last work, ONNX Runtime's for some 60 ms. A window is
    longer than the kernel's accounting tick, or a spinning thread could look idle.
    """
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        before = time.process_time()
        time.sleep(window)
        if time.process_time() - before < 0.05 * window:
            return


def serve(requests: Iterable[str], replies: TextIO, worker: Worker) -> None:
    """Answer every request line until there are no more."""
    for line in requests:
        reply = worker.answer(json.loads(line))
        wait_until_quiet()
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def main() -> None:
    """Serve on the standard streams; what a runtime prints goes to standard error instead."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as replies:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(sys.stdin, replies, Worker())


if __name__ == "__main__":
    main()
