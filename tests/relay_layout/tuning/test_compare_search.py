"""The command that measures every kernel of some workloads and replays the search on them."""

import sys
from pathlib import Path

import pytest

from scripts import compare_search
from tests.topi_ext.tune.conftest import MadeUp
from topi_ext.tune.records.log import load


@pytest.fixture
def measurer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeUp:
    """In an empty folder, with one small workload."""
    measurer = MadeUp()
    monkeypatch.setattr(compare_search, "local_measurer", lambda target: measurer)
    monkeypatch.setattr(compare_search, "WORKLOADS", (compare_search.workload(32, 7, 32, 3),))
    monkeypatch.chdir(tmp_path)
    return measurer


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["compare_search", "--threads", "2", "--target", "x86-64-v4", *words])
    return compare_search.main()


def test_one_command_measures_and_compares(
    measurer: MadeUp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(monkeypatch, "--measure", "log.jsonl", "--seeds", "2")
    header, row, quick, beaten = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["workload", "space", "best", "us"]
    size = len({key for key in measurer.counts})
    assert row.startswith(f"conv2d 32x7x7 -> 32 3x3 NCHW16c  {size} ")
    assert quick.startswith("95% of the best within a quarter of the space: ")
    assert beaten.endswith(" of 1 workloads")
    assert status == int("0 of 1" in quick or "0 of 1" in beaten)
    records, problems = load([Path("log.jsonl")])
    assert (len(records) >= size, problems) == (True, [])
    # The same command again has nothing left to measure.
    runs = sum(measurer.counts.values())
    run(monkeypatch, "--measure", "log.jsonl", "--seeds", "1")
    assert sum(measurer.counts.values()) == runs
    assert measurer.closed


def test_no_log_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch) == 2
    message = "relay-layout: error: give a log, or --measure LOG to make one\n"
    assert capsys.readouterr().err == message
