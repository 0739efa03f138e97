"""Logs as pairs, and the best of them."""

from pathlib import Path
from typing import Any

import pytest

from relay_layout.errors import InputError, RelayLayoutWarning
from relay_layout.relay.autotvm import callback, record
from relay_layout.relay.autotvm.task import Task
from relay_layout.relay.autotvm.tuner import GridSearchTuner
from topi_ext.tune.records.log import load


@pytest.fixture
def log(tasks: list[Task], option: Any, tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    for task in tasks:
        GridSearchTuner(task).tune(6, option, callbacks=[callback.log_to_file(path)])
    return path


def test_a_line_says_what_it_said(log: Path) -> None:
    lines = log.read_text().splitlines()
    pairs = [record.decode(line) for line in lines]
    assert [record.encode(*each) for each in pairs] == lines
    assert pairs == list(record.load_from_file(log))


def test_the_best_of_each_kernel_is_kept(log: Path, tmp_path: Path, tasks: list[Task]) -> None:
    best = tmp_path / "best.jsonl"
    record.pick_best(log, best)
    kept, problems = load([best])
    assert not problems
    assert {each.workload for each in kept} == {task.workload for task in tasks}
    # Winograd's and direct kernels count apart.
    assert len(kept) < len(log.read_text().splitlines()) / 2
    again = best.read_bytes()
    record.pick_best(log, best)
    assert best.read_bytes() == again


def test_what_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("nothing\n")
    with pytest.raises(InputError, match="is no tuning log: not one of its lines is a record; line 1: "):
        record.load_from_file(path)


def test_lines_that_are_skipped_are_told(log: Path, tmp_path: Path) -> None:
    log.write_text(log.read_text() + '{"unfinished')
    for read in (record.load_from_file, lambda path: record.pick_best(path, tmp_path / "best.jsonl")):
        with pytest.warns(RelayLayoutWarning, match=r"log.jsonl:\d+: unfinished, as of a writer that was"):
            read(log)
