"""Workers of a fleet: each for itself, and none left behind."""

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from relay_layout.tuning.fleet import coordinator
from relay_layout.tuning.fleet.coordinator import FleetJob, run_fleet
from relay_layout.tuning.fleet.messages import STOP, Finished, Started
from relay_layout.tuning.fleet.status import FleetStatus
from relay_layout.tuning.job import TuningJob
from topi_ext.tune.measuring.tracker import RemoteDevice

NO_TRACKER = 1
"""A port that nobody listens on."""


def pretend(job: TuningJob, remote: RemoteDevice, builders: int, connection: Connection) -> None:
    """Does what the key says."""
    connection.send(Started(builders))
    match remote.key:
        case "crash":
            os._exit(3)
        case "until told":
            ended = "interrupted" if connection.recv() == STOP else "done"
        case "forever":
            Path(job.log).write_text(str(os.getpid()))
            time.sleep(600)
        case _:
            ended = "done"
    connection.send(Finished({"ended": ended, "gain": 2.0, "tasks": []}))


def jobs(folder: Path, *keys: str) -> list[FleetJob]:
    return [
        FleetJob(TuningJob(["m"], folder / key, key), RemoteDevice("127.0.0.1", NO_TRACKER, key))
        for key in keys
    ]


@pytest.fixture(autouse=True)
def workers_that_pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "work", pretend)


def test_a_worker_that_crashes_and_one_that_is_stopped(tmp_path: Path) -> None:
    told: list[str] = []

    def stop() -> bool:
        return any("process ended" in line for line in told)

    status = run_fleet(jobs(tmp_path, "ends", "crash", "until told"), tell=told.append, stop=stop)
    assert [target.ended for target in status.targets] == ["done", "failed", "interrupted"]
    assert [target.reason for target in status.targets] == ["", "its process ended with status 3", ""]
    assert status.targets[1].internal
    assert "crash (crash): failed: its process ended with status 3" in told
    assert told.count("no RPC tracker at 127.0.0.1:1: Connection refused") == 1
    assert status.tracker_error == "no RPC tracker at 127.0.0.1:1: Connection refused"


def test_an_interrupt_ends_the_workers(tmp_path: Path) -> None:
    log = tmp_path / "forever"

    def interrupt(status: FleetStatus) -> Any:
        if log.exists() and log.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_fleet(jobs(tmp_path, "forever"), show=interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text()), 0)
