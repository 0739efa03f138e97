"""The verb ``import-log``."""

import json
from pathlib import Path

import pytest

from relay_layout.cli.main import main
from topi_ext.tune.records.log import load

SAMPLE = Path(__file__).parents[2] / "data" / "autotvm" / "x86.log"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.log").write_text(SAMPLE.read_text())


def test_a_sample_becomes_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import-log", "old.log", "-o", "new.jsonl", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    records, problems = load([Path("new.jsonl")])
    assert not problems
    assert {one.origin for one in records} == {"inherited"}
    assert report["records"] == len(records)
    assert (report["lines"], report["carried"], report["refused"]) == (14, 12, {})
    assert report["failed"] == {"it took too long to compile": [14, 15]}


def test_the_report_names_lines_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with open("old.log", "a") as file:
        file.write("oops\n" * 12)
    assert main(["import-log", "old.log", "-o", "new.jsonl", "--threads", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("carried       12 of 26 lines, as ")
    assert lines[1] == "written       new.jsonl"
    assert lines[2] == "next          tune --tuning-records new.jsonl starts from them; none is used untuned"
    assert lines[3] == "failed there  it took too long to compile: lines 14, 15"
    assert lines[4] == (
        "not carried   not JSON: Expecting value at column 1: lines 16, 17, 18, 19, 20, 21, 22, 23 and 4 more"
    )


def test_a_log_of_nothing_useful_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old.log").write_text("oops\n")
    assert main(["import-log", "old.log", "-o", "new.jsonl"]) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: old.log: nothing in it can be carried over: not JSON: "
        "Expecting value at column 1\n"
    )
    assert not Path("new.jsonl").exists()


def test_an_empty_log_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old.log").write_text("# nothing\n")
    assert main(["import-log", "old.log", "-o", "new.jsonl"]) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: old.log: nothing in it can be carried over: it is empty\n"
    )


def test_a_log_that_is_there_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.jsonl").write_text("precious\n")
    assert main(["import-log", "old.log", "-o", "new.jsonl"]) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: -o: new.jsonl exists; relay-layout log merge puts logs together\n"
    )
    assert Path("new.jsonl").read_text() == "precious\n"


def test_a_log_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import-log", "none.log", "-o", "new.jsonl"]) == 2
    assert capsys.readouterr().err == "relay-layout: error: none.log: no such file\n"
