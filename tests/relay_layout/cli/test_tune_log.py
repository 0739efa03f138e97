"""The verb ``log``."""

import json
from pathlib import Path
from typing import Any

import pytest

from relay_layout.cli.main import main
from topi_ext.tune.records.log import append, load
from topi_ext.tune.records.record import TuningRecord
from topi_ext.workloads.convolution import ConvolutionWorkload

DENSE = ConvolutionWorkload(
    1, 64, 64, 1, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, "WC", "OI16o", "WC", "float32", "float32"
)


def record(*seconds: float, **changes: Any) -> TuningRecord:
    fields: dict[str, Any] = {"error": "" if seconds else "run: no", "knobs": {"lanes": 16}, "threads": 2}
    return TuningRecord(DENSE, "x86-64 AVX-512", seconds=seconds, **(fields | changes))


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    append(Path("a.jsonl"), record(2.0))
    append(Path("a.jsonl"), record())
    append(Path("b.jsonl"), record(1.0, knobs={"lanes": 8}))
    append(Path("b.jsonl"), record(4.0, origin="inherited", threads=0))


def test_merging(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "merge", "a.jsonl", "b.jsonl", "-o", "out.jsonl", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "output": "out.jsonl",
        "records_read": 4,
        "records_written": 2,
        "problems": [],
    }
    records, _ = load([Path("out.jsonl")])
    assert sorted(one.cost for one in records) == [1.0, 4.0]


def test_merging_tells_what_it_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    with open("a.jsonl", "a") as file:
        file.write("{}\n")
    assert main(["log", "merge", "a.jsonl", "-o", "out.jsonl"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "skipped a.jsonl:3: not a tuning record: it has no schema\n"
    assert captured.out.splitlines() == [
        "read     2 records of 1 log, 1 line skipped",
        "written  1 record to out.jsonl",
    ]


def test_merging_nothing_leaves_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.jsonl").write_text("oops\n")
    before = Path("a.jsonl").read_text()
    assert main(["log", "merge", "bad.jsonl", "-o", "a.jsonl"]) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: log merge: no line of bad.jsonl is a record, as bad.jsonl:1: not JSON: "
        "Expecting value at column 1; a.jsonl is left as it was\n"
    )
    assert Path("a.jsonl").read_text() == before


def test_merging_writes_over_nothing_but_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.onnx").write_bytes(b"\x08\x0a model")
    assert main(["log", "merge", "a.jsonl", "-o", "model.onnx"]) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: -o: model.onnx is there and no tuning log; give the name of a new file\n"
    )
    assert Path("model.onnx").read_bytes() == b"\x08\x0a model"


def test_checking_a_good_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "check", "a.jsonl", "b.jsonl"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines() == [
        "records        4 (1 inherited, 3 measured)",
        "workloads      2",
        "failed trials  1",
        "bad lines      0",
    ]


def test_checking_a_bad_log(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.jsonl").write_text("oops\n" * 25)
    assert main(["log", "check", "bad.jsonl", "--json"]) == 1
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["records"] == 0
    assert report["problems"][24] == {
        "log": "bad.jsonl",
        "line": 25,
        "reason": "not JSON: Expecting value at column 1",
    }
    lines = captured.err.splitlines()
    assert lines[19] == "skipped bad.jsonl:20: not JSON: Expecting value at column 1"
    assert lines[20] == "skipped 5 lines more"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("merge a.jsonl", "log merge needs -o OUT, the log to write"),
        ("merge a.jsonl -o a.jsonl", "-o: a.jsonl would overwrite what is being read"),
        ("merge c.jsonl -o out.jsonl", "c.jsonl: no such file"),
        ("check a.jsonl -o out.jsonl", "log check writes nothing; leave out -o"),
        (
            "sort a.jsonl",
            "log: argument action: invalid choice: 'sort' (choose from merge, check); "
            "see relay-layout log --help",
        ),
    ],
)
def test_words_that_cannot_be(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", *words.split()]) == 2
    said = capsys.readouterr().err.replace("'merge', 'check'", "merge, check")
    assert said == f"relay-layout: error: {message}\n"
    assert not Path("out.jsonl").exists()
