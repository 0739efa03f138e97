"""The worker's side, inside this process."""

from __future__ import annotations

import io
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_layout.bench.workers.worker import Worker, serve, time_runs, wait_until_quiet


def prepare_request(tmp_path: Path, peer: str) -> dict[str, Any]:
    np.savez(tmp_path / "in.npz", np.array([-1.0, 2.0], np.float32))
    return {
        "command": "prepare",
        "peer": peer,
        "model": "unused.onnx",
        "threads": 1,
        "inputs": str(tmp_path / "in.npz"),
        "input_names": ["x"],
        "outputs": str(tmp_path / "out.npz"),
    }


def test_time_runs_with_a_clock_of_its_own() -> None:
    ticks = iter([0.0, 1.0, 10.0, 12.0])
    assert time_runs(lambda: None, 2, lambda: next(ticks)) == [1.0, 2.0]


def test_prepare_then_run(tmp_path: Path, example_peers: str) -> None:
    worker = Worker(clock=itertools.count(0.0, 0.5).__next__)
    reply = worker.answer(prepare_request(tmp_path, f"{example_peers}:exact"))
    assert reply == {"version": "unknown", "prepare_seconds": 0.5}
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["arr_0"], [0.0, 2.0])
    assert worker.answer({"command": "run", "settle": 1, "repeats": 3}) == {"seconds": [0.5, 0.5, 0.5]}


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        ("example_peers:refusing", "RuntimeError: no such kernel"),
        ("example_peers:absent", "absent: needs a_package_nobody_has: pip install 'relay-layout[bench]'"),
        ("example_peers:nothing", "peer 'example_peers:nothing'"),
        ("nobody", "unknown peer 'nobody'"),
    ],
)
def test_what_goes_wrong_is_one_line(tmp_path: Path, example_peers: str, peer: str, message: str) -> None:
    error = Worker().answer(prepare_request(tmp_path, peer))["error"]
    assert error.startswith(message)
    assert "\n" not in error


def test_run_before_prepare() -> None:
    reply = Worker().answer({"command": "run", "settle": 0, "repeats": 1})
    assert reply == {"error": "RuntimeError: run before prepare"}


def test_serve_answers_line_by_line() -> None:
    requests = [json.dumps({"command": "run", "settle": 0, "repeats": 1})] * 2
    replies = io.StringIO()
    serve(requests, replies, Worker())
    assert len(replies.getvalue().splitlines()) == 2


def test_wait_until_quiet_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "process_time", itertools.count(0.0, 1.0).__next__)
    start = time.monotonic()
    wait_until_quiet(limit=0.05, window=0.01)
    assert 0.04 < time.monotonic() - start < 1.0


def test_wait_until_quiet_returns_when_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    start = time.monotonic()
    wait_until_quiet(limit=30.0, window=0.01)
    assert time.monotonic() - start < 5.0
