"""Three emulated boards of two kinds tune at once; one that dies, and a killed command, lose nothing."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.board.servers import Boards
from topi_ext.tune.records.log import load
from topi_ext.tune.records.record import Record, TuningRecord, knobs_key

ROOT = Path(__file__).resolve().parents[2]
LITTLE = "little"
TRIALS = 6
CONVOLUTION = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 16, 3, 3), float32]) {
  nn.conv2d(%x, %w, padding=[1, 1, 1, 1])
}
"""
KINDS = {"emulated": "aarch64-cortex-a76", LITTLE: "aarch64-cortex-a55"}
SECONDS = 240.0


@pytest.fixture
def lost(boards: Boards) -> Iterator[int]:
    """The place of the board that dies, of three of which one is of another kind."""
    boards.wait_for(2)
    boards.add(LITTLE)
    boards.wait_for(1, LITTLE)
    yield 0
    boards.kill(-1)
    if boards.servers[0].poll() is not None:
        boards.add()


@pytest.mark.slow
def test_three_boards_of_two_kinds(boards: Boards, lost: int, tmp_path: Path) -> None:
    (tmp_path / "small.relay").write_text(CONVOLUTION)
    words = ["fleet", "small.relay", "-o", "logs", f"--rpc-tracker=127.0.0.1:{boards.port}", "--threads=1"]
    words += [f"--board={key}={target}" for key, target in KINDS.items()]
    words += [f"--trials={TRIALS}", "--strategy=random", "--tasks=kernels", "--desired-layout=NCHW8c"]
    words += ["--rpc-wait=120", "--json"]
    command = [sys.executable, "-m", "relay_layout", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    logs = [tmp_path / "logs" / f"{target}.jsonl" for target in KINDS.values()]

    first = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    wait_for_records(logs, 1, first)
    workers = psutil.Process(first.pid).children()
    first.kill()
    first.wait()
    _, left = psutil.wait_procs(workers, timeout=SECONDS)
    assert left == []
    kept = {log: measured(log) for log in logs}
    boards.wait_for(2)
    boards.wait_for(1, LITTLE)

    second = subprocess.Popen(
        command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for_records(logs[:1], len(kept[logs[0]]) + 1, second)
    boards.kill(lost)
    out, told = second.communicate(timeout=SECONDS)
    assert second.returncode == 0, told
    report = json.loads(out.splitlines()[-1])

    assert [(each["key"], each["ended"], each["failed"], each["lost"]) for each in report["targets"]] == [
        (key, "done", 0, 0) for key in KINDS
    ]
    assert sorted(each["key"] for each in report["boards"]) == ["emulated", "emulated", LITTLE]
    assert [each["key"] for each in report["boards"] if each["state"] == "lost"] == ["emulated"]
    assert all(each["measured"] > 0 for each in report["boards"] if each["state"] != "lost")
    for log in logs:
        records = measured(log)
        assert records[: len(kept[log])] == kept[log]
        assert [record.error for record in records] == [""] * len(records)
        # What the killed command had measured is not measured again, but to confirm the best.
        counts = [knobs_key(record.knobs) for record in records if len(record.seconds) == 3]
        assert len(counts) == len(set(counts)) == TRIALS


def wait_for_records(logs: list[Path], count: int, process: subprocess.Popen[Any]) -> None:
    """Until each log holds so many."""
    limit = time.monotonic() + SECONDS
    while any(len(measured(log)) < count for log in logs):
        assert process.poll() is None, f"ended with status {process.poll()}"
        assert time.monotonic() < limit
        time.sleep(0.1)


def measured(log: Path) -> list[TuningRecord]:
    records: list[Record] = []
    if log.exists():
        records, problems = load([log])
        assert not problems
    return [record for record in records if isinstance(record, TuningRecord)]
