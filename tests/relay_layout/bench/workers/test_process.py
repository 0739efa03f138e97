"""Worker processes, healthy and not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from relay_layout.bench.workers.process import PeerError, WorkerProcess, worker_environment


def prepare(worker: WorkerProcess, folder: Path, timeout: float = 60.0) -> list[np.ndarray]:
    np.savez(folder / "in.npz", np.array([-1.0, 2.0], np.float32))
    outputs = folder / "out.npz"
    worker.prepare(Path("unused.onnx"), folder / "in.npz", ["x"], outputs, timeout)
    with np.load(outputs) as stored:
        return [stored[name] for name in stored.files]


def test_runs_are_timed_in_the_worker(tmp_path: Path, example_peers: str) -> None:
    with WorkerProcess(f"{example_peers}:exact", threads=1) as worker:
        (output,) = prepare(worker, tmp_path)
        np.testing.assert_array_equal(output, [0.0, 2.0])
        seconds = worker.run(settle=1, repeats=4)
    assert len(seconds) == 4
    assert all(0 < value < 1 for value in seconds)


def test_thread_counts_reach_the_worker(tmp_path: Path, example_peers: str) -> None:
    with WorkerProcess(f"{example_peers}:threads", threads=3) as worker:
        (output,) = prepare(worker, tmp_path)
    np.testing.assert_array_equal(output, [3, 3])


def test_what_a_peer_prints_does_not_mix_with_replies(tmp_path: Path, example_peers: str) -> None:
    with WorkerProcess(f"{example_peers}:chatty", threads=1) as worker:
        prepare(worker, tmp_path)
        assert len(worker.run(settle=0, repeats=2)) == 2


def test_a_killed_worker_is_named_with_its_last_words(tmp_path: Path, example_peers: str) -> None:
    name = f"{example_peers}:killed"
    message = f"{name}: the worker was killed by SIGKILL while preparing: about to die"
    with WorkerProcess(name, threads=1) as worker, pytest.raises(PeerError) as error:
        prepare(worker, tmp_path)
    assert str(error.value) == message


def test_a_worker_that_dies_while_measured_and_is_asked_again(tmp_path: Path, example_peers: str) -> None:
    with WorkerProcess(f"{example_peers}:dying", threads=1) as worker:
        prepare(worker, tmp_path)
        with pytest.raises(PeerError, match="the worker ended with exit status 3 while running"):
            worker.run(settle=0, repeats=1)
        with pytest.raises(PeerError, match="exit status 3"):
            worker.run(settle=0, repeats=1)


def test_a_worker_that_hangs_is_given_up(tmp_path: Path, example_peers: str) -> None:
    message = r"sleeping: no answer within 1\.5 s while preparing"
    with (
        WorkerProcess(f"{example_peers}:sleeping", threads=1) as worker,
        pytest.raises(PeerError, match=message),
    ):
        prepare(worker, tmp_path, timeout=1.5)


def test_an_error_in_the_peer_leaves_the_worker_alive(tmp_path: Path, example_peers: str) -> None:
    with WorkerProcess(f"{example_peers}:refusing", threads=1) as worker:
        for _ in range(2):
            with pytest.raises(PeerError, match=r"refusing: RuntimeError: no such kernel$"):
                prepare(worker, tmp_path)


def test_environment_keeps_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PYTHONPATH": "/somewhere", "OMP_NUM_THREADS": "1", "HOME": "/h"}.items():
        monkeypatch.setenv(name, value)
    environment = worker_environment(4)
    assert environment["OMP_NUM_THREADS"] == environment["TVM_NUM_THREADS"] == "4"
    assert environment["HOME"] == "/h"
    assert environment["PYTHONPATH"].split(os.pathsep)[-1] == "/somewhere"


def test_workers_import_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    folder, *_ = worker_environment(1)["PYTHONPATH"].split(os.pathsep)
    assert (Path(folder) / "relay_layout" / "bench" / "workers" / "worker.py").is_file()
