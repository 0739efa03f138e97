"""Callbacks: logs, a line of progress, and speeds."""

import io
from pathlib import Path
from typing import Any

import pytest

from relay_layout.relay.autotvm import callback
from relay_layout.relay.autotvm.record import load_from_file
from relay_layout.relay.autotvm.task import Task
from relay_layout.relay.autotvm.tuner import GridSearchTuner


def test_a_log_has_a_line_for_each_measurement(tasks: list[Task], option: Any, tmp_path: Path) -> None:
    log, stream, monitor = tmp_path / "log.jsonl", io.StringIO(), callback.Monitor()
    logs = [callback.log_to_file(str(log)), callback.log_to_file(stream)]
    GridSearchTuner(tasks[0]).tune(4, option, callbacks=[*logs, monitor])
    assert log.read_text() == stream.getvalue()
    read = list(load_from_file(log))
    assert len(read) == len(monitor.scores) >= 4
    assert read[0][0].task.name == tasks[0].name
    assert monitor.trial_scores()[0] == pytest.approx(tasks[0].flop / read[0][1].costs[0])
    assert monitor.trial_timestamps()[0] > 1.7e9
    monitor.reset()
    assert monitor.trial_scores().size == 0


def test_progress_is_one_line(tasks: list[Task], option: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tuner = GridSearchTuner(tasks[0])
    tuner.tune(4, option, callbacks=[callback.progress_bar(4, prefix="[Task  1/ 2]")])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("[Task  1/ 2] Current/Best: ")
    assert f"/{tuner.best_flops / 1e9:8.2f} GFLOPS | Progress: (4/4) | " in line
    assert line.endswith(" s Done.")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: callback.log_to_file("x", protocol="pickle"), "log_to_file: protocol 'pickle' is not known"),
        (lambda: callback.progress_bar(1, si_prefix="k"), "progress_bar: si_prefix 'k' is not known"),
    ],
)
def test_options_that_are_not_there(make: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        make()
