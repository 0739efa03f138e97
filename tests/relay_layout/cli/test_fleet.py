"""The verb ``fleet``: what it refuses, its page, and its report. tests/board tries it with boards."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from relay_layout.cli import fleet
from relay_layout.cli.fleet_page import StatusPage, clock, fitted, page, target_line
from relay_layout.cli.main import main
from relay_layout.tuning.fleet.status import BoardStatus, FleetStatus, TargetStatus
from topi_ext.errors import RelayLayoutError

COMMAND = ["fleet", "resnet18", "-o", "logs", "--rpc-tracker", "127.0.0.1:1"]
BOARD = ["--board", "pi5=aarch64-cortex-a76"]

REPORT: dict[str, Any] = {
    "target": "aarch64-cortex-a76",
    "log": "logs/aarch64-cortex-a76.jsonl",
    "ended": "done",
    "gain": 1.25,
    "measured": 40,
    "failed": 1,
    "lost": 0,
    "tasks": [{"trials": 30}],
}


@pytest.fixture
def status() -> FleetStatus:
    first = TargetStatus("pi5", "aarch64-cortex-a76", "logs/aarch64-cortex-a76.jsonl", "conv2d 64", 20, 3, 40)
    second = TargetStatus("n1", "aarch64-neoverse-n1", "logs/aarch64-neoverse-n1.jsonl")
    first.gain, first.seconds_left = 1.25, 3725.0
    boards = [
        BoardStatus("10.0.0.2:9090", "pi5", "busy", 31, 1, 0, "conv2d 64"),
        BoardStatus("10.0.0.3:9090", "pi5", "lost", 12),
        BoardStatus("10.0.0.4:9090", "n1"),
    ]
    times = iter([100.0, *[861.0] * 20])
    return FleetStatus(
        "10.0.0.1:9190",
        [first, second],
        {board.place: board for board in boards},
        clock=lambda: next(times),
    )


def test_the_page(status: FleetStatus) -> None:
    assert page(status) == [
        "0:12:41, boards: 1 busy, 1 idle, 1 lost, tracker 10.0.0.1:9190",
        "",
        "target               key  tasks done  trials  gain   left     now",
        "aarch64-cortex-a76   pi5  3 of 20     40      1.250  1:02:05  conv2d 64",
        "aarch64-neoverse-n1  n1   -           0       1.000  -        choosing layouts",
        "",
        "board          key  state  measured  failed  task",
        "10.0.0.2:9090  pi5  busy   31        1       conv2d 64",
        "10.0.0.3:9090  pi5  lost   12        0       -",
        "10.0.0.4:9090  n1   idle   0         0       -",
    ]


def test_a_tracker_that_is_silent_stands_on_the_page(status: FleetStatus) -> None:
    status.tracker_error = "does not answer"
    assert page(status)[0].endswith("tracker 10.0.0.1:9190: does not answer")


def test_a_target_in_a_line(status: FleetStatus) -> None:
    assert target_line(status, status.targets[0]) == (
        "aarch64-cortex-a76 (pi5): 3 of 20 tasks done, 40 trials, 1.250 times as fast, 1:02:05 left, "
        "1 of 2 boards, conv2d 64"
    )
    assert target_line(status, status.targets[1]) == "aarch64-neoverse-n1 (n1): choosing layouts"


def test_lines_where_nobody_looks_at_a_terminal(
    status: FleetStatus, capsys: pytest.CaptureFixture[str]
) -> None:
    status.targets[1].ended = "done"
    shown = StatusPage()
    shown.show(status)
    shown.tell("a board is\x1b[2J back")
    shown.show(status)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [target_line(status, status.targets[0]), "a board is\\x1b[2J back"]


def test_the_page_is_drawn_over_itself(
    status: FleetStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "6")
    shown = StatusPage()
    shown.show(status)
    shown.tell("a board is back")
    first, second = capsys.readouterr().err.split("\x1b[5F\x1b[J")
    assert first.splitlines()[-1] == "... 6 lines more"
    assert second == f"a board is back\n{first}"
    assert max(map(len, first.splitlines())) == 29


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [(1, 3, ["a", "b", "c"]), (12, 2, ["abc", "... 2 lines "]), (5, 0, ["... 3"])],
)
def test_a_page_fits(columns: int, rows: int, expected: list[str]) -> None:
    assert fitted(["abc", "bcd", "cde"], columns, rows) == expected


def test_time_left() -> None:
    assert [clock(seconds) for seconds in (-1, 59.6, 3725)] == ["0:00:00", "0:01:00", "1:02:05"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "fleet: the following arguments are required: --board; see relay-layout fleet --help"),
        (
            ["--board", "pi5"],
            "fleet: argument --board: expected KEY=TARGET, such as pi5=aarch64-cortex-a76, got 'pi5'; "
            "see relay-layout fleet --help",
        ),
        ([*BOARD, *BOARD], "--board pi5=aarch64-cortex-a76 is given twice"),
        ([*BOARD, "-o", "file"], "-o: file is a file, not a folder"),
        ([*BOARD, "-o", "a/b"], "-o: the folder {folder}/a does not exist"),
        (BOARD, "no RPC tracker at 127.0.0.1:1: Connection refused"),
        (
            ["--board", "pi5=arm"],
            "target 'arm' is not known; use 'native', one of x86-64-v2, x86-64-v3, x86-64-v4, "
            "an ARM core such as aarch64-cortex-a76, cuda-sm_90, a processor name that LLVM knows, or "
            "TVM's target JSON",
        ),
    ],
)
def test_options_that_cannot_be(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main([*COMMAND, *words]) == 2
    folder = os.path.realpath(tmp_path)
    assert capsys.readouterr().err == f"relay-layout: error: {message.format(folder=folder)}\n"
    assert not Path("logs").exists()


@pytest.fixture
def conducted(status: FleetStatus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FleetStatus:
    """What the verb gets from the coordinator, in place of boards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("topi_ext.tune.measuring.tracker.check_remote", lambda remote: None)
    monkeypatch.setattr("relay_layout.tuning.fleet.coordinator.run_fleet", lambda jobs, **_: status)
    return status


def ended(target: TargetStatus, how: str) -> None:
    target.ended = how
    target.report = {**REPORT, "target": target.target, "log": target.log, "ended": how}


@pytest.mark.parametrize(("how", "exit_status"), [("done", 0), ("interrupted", 130), ("failed", 1)])
def test_the_report(
    conducted: FleetStatus, how: str, exit_status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = conducted.targets
    ended(first, "done")
    if how == "failed":
        second.ended, second.reason = "failed", "no machine is left"
    else:
        ended(second, how)
    assert main([*COMMAND, *BOARD, "--json"]) == exit_status
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert [target["ended"] for target in report["targets"]] == ["done", how]
    assert report["targets"][1].get("reason") == ("no machine is left" if how == "failed" else None)
    assert [board["state"] for board in report["boards"]] == ["busy", "lost", "idle"]
    rows = [line.split() for line in captured.err.splitlines()]
    assert rows[1] == [
        *("aarch64-cortex-a76", "pi5", "1", "40", "1", "1.250", "done"),
        "logs/aarch64-cortex-a76.jsonl",
    ]
    assert rows[4] == ["10.0.0.2:9090", "pi5", "31", "1", "0"]
    assert Path("logs").is_dir()


def test_where_every_target_failed_that_is_the_error(
    conducted: FleetStatus, capsys: pytest.CaptureFixture[str]
) -> None:
    for target in conducted.targets:
        target.ended, target.reason = "failed", "no machine is left"
    assert main([*COMMAND, *BOARD]) == 2
    assert capsys.readouterr().err == "relay-layout: error: no machine is left\n"


def test_the_log_of_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logs: list[Path] = []

    def no_board(remote: Any) -> None:
        raise RelayLayoutError("none")

    def noted(jobs: Any, layouts: Any) -> Any:
        found = jobs_of(jobs, layouts)
        logs.extend(job.job.log for job in found)
        return found

    jobs_of = fleet._jobs
    monkeypatch.setattr("topi_ext.tune.measuring.tracker.check_remote", no_board)
    monkeypatch.setattr(fleet, "_jobs", noted)
    target = '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a55"}'
    assert main([*COMMAND, *BOARD, "--board", f"phone={target}", "--board", "nano=aarch64-cortex-a76"]) == 2
    assert list(map(str, logs)) == [
        "logs/aarch64-cortex-a76.jsonl",
        "logs/kind_llvm_mtriple_aarch64-linux-gnu_mcpu_cortex-a55.jsonl",
        "logs/aarch64-cortex-a76.jsonl",
    ]
