"""The verb ``port``."""

import json
import os
from pathlib import Path

import pytest

from relay_layout.cli.main import main

SCRIPT = "import tvm\nfrom tvm import relay, micro  # both\nx = relay.var('x')\n"
PORTED = "import tvm\nfrom relay_layout import relay\nfrom tvm import micro  # both\nx = relay.var('x')\n"
REASON = "microTVM is gone from TVM; build for a target with tvm.target.Target"
NOTE = f"script.py:2:24: tvm.micro: {REASON}"
SUMMARY = "1 line changed, 1 could not be carried"
REPORT = {
    "changed": 1,
    "not_carried": [
        {
            "line": 2,
            "column": 24,
            "name": "tvm.micro",
            "reason": REASON,
        }
    ],
}


@pytest.fixture(autouse=True)
def script() -> Path:
    path = Path("script.py")
    path.write_text(SCRIPT)
    return path


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.rstrip("\n").splitlines()[-1]


def test_prints_the_script_and_notes_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "script.py"]) == 0
    captured = capsys.readouterr()
    assert captured.out == PORTED
    assert captured.err.splitlines() == [NOTE, SUMMARY]


def test_writes_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "script.py", "-o", "new.py"]) == 0
    assert Path("new.py").read_text() == PORTED
    captured = capsys.readouterr()
    assert captured.out == f"{SUMMARY}\n"
    assert captured.err.splitlines() == [NOTE]


def test_a_file_has_the_permissions_of_the_script(script: Path) -> None:
    script.chmod(0o750)
    assert main(["port", "script.py", "-o", "new.py"]) == 0
    assert Path("new.py").stat().st_mode & 0o777 == 0o750


def test_a_file_that_differs_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.py").write_text("mine")
    assert main(["port", "script.py", "-o", "new.py"]) == 2
    assert error_of(capsys) == "relay-layout: error: -o: new.py exists and differs; --force writes over it"
    assert Path("new.py").read_text() == "mine"


def test_a_file_that_differs_is_replaced_by_force() -> None:
    Path("new.py").write_text("mine")
    assert main(["port", "script.py", "-o", "new.py", "--force"]) == 0
    assert Path("new.py").read_text() == PORTED


def test_a_file_that_is_the_same_is_no_matter() -> None:
    Path("new.py").write_text(PORTED)
    before = Path("new.py").stat().st_ino
    assert main(["port", "script.py", "-o", "new.py"]) == 0
    assert Path("new.py").stat().st_ino == before


def test_in_place_by_force(script: Path) -> None:
    assert main(["port", "script.py", "-o", "script.py"]) == 2
    assert script.read_text() == SCRIPT
    assert main(["port", "script.py", "-o", "script.py", "--force"]) == 0
    assert script.read_text() == PORTED


def test_nothing_is_left_when_writing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", "new.py")

    monkeypatch.setattr(os, "replace", refuse)
    assert main(["port", "script.py", "-o", "new.py"]) == 2
    assert os.listdir() == ["script.py"]


def test_check_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "script.py", "--check"]) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{SUMMARY}\n"
    assert captured.err.splitlines() == [NOTE]
    assert os.listdir() == ["script.py"]


def test_check_of_a_script_that_can_be_carried(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text("from tvm import relay\n")
    assert main(["port", "script.py", "--check"]) == 0
    assert capsys.readouterr().out == "1 line changed, everything carried\n"


@pytest.mark.parametrize("words", [[], ["--check"], ["-o", "new.py"]])
def test_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "script.py", "--json", *words]) == ("--check" in words)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == REPORT


def test_with_json_the_script_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "script.py", "--json"]) == 0
    assert capsys.readouterr().err.endswith(PORTED)


def test_a_script_that_does_not_parse(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text("import tvm\nprint 'x'\n")
    assert main(["port", "script.py"]) == 2
    assert error_of(capsys).startswith("relay-layout: error: script.py:2:1: this is no Python 3: Missing")


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "absent.py"]) == 2
    assert error_of(capsys) == "relay-layout: error: absent.py: no such file"


def test_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "."]) == 2
    assert error_of(capsys) == "relay-layout: error: .: Is a directory"


def test_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "/dev/zero"]) == 2
    assert error_of(capsys) == "relay-layout: error: /dev/zero: not a regular file"


def test_a_script_of_no_sensible_size(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with script.open("wb") as file:
        file.truncate((16 << 20) + 1)
    assert main(["port", "script.py"]) == 2
    assert error_of(capsys) == "relay-layout: error: script.py: a script of more than 16 MiB"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--check", "-o", "new.py"], "--check writes nothing, so it cannot be combined with -o"),
        (["--check", "--force"], "--check writes nothing, so it cannot be combined with --force"),
        (["--force"], "--force says what to do with the file of -o, but there is no -o"),
        (["-o", "absent/new.py"], "-o: the folder {here}/absent does not exist"),
    ],
)
def test_options_that_make_no_sense(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["port", "script.py", *words]) == 2
    here = os.path.realpath(os.getcwd())
    assert error_of(capsys) == f"relay-layout: error: {message.format(here=here)}"
