"""How the command ends: exit statuses, and what stands on which stream."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import relay_layout
from relay_layout.__main__ import main as entry_point
from relay_layout.cli.main import VERBS, main
from relay_layout.errors import ModelError

ROOT = Path(__file__).resolve().parents[3]


def command(*words: str, **keywords: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "relay_layout", *words],
        capture_output=True,
        text=True,
        env=environment,
        **keywords,
    )


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on standard error; there must be nothing on standard output."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.rstrip("\n")


def test_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert error_of(capsys) == (
        "relay-layout: error: no verb given; the verbs are compile, run, export, convert, "
        "explain, diff, bench, tune, fleet, analyse, log, import-log, port; see relay-layout --help"
    )


@pytest.mark.parametrize(("word", "kind"), [("squash", "verb"), ("--squash", "option")])
def test_unknown_verb(word: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert error_of(capsys) == (
        f"relay-layout: error: unknown {kind} '{word}'; the verbs are compile, run, export, convert, "
        "explain, diff, bench, tune, fleet, analyse, log, import-log, port; see relay-layout --help"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compile", "compile: the following arguments are required: MODEL, -o/--output"),
        ("compile m -o a --fast", "compile: unrecognized arguments: --fast"),
        ("compile m -o a --desired NHWC", "compile: unrecognized arguments: --desired NHWC"),
        ("compile m -o", "compile: argument -o/--output: expected one argument"),
        ("run", "run: the following arguments are required: ARTIFACT"),
        ("convert", "convert: the following arguments are required: MODEL"),
        ("bench", "bench: the following arguments are required: MODEL"),
    ],
)
def test_arguments_that_do_not_parse(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    verb = words.split()[0]
    assert error_of(capsys) == f"relay-layout: error: {message}; see relay-layout {verb} --help"


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert all(f"  {verb} " in captured.out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: relay-layout {verb} ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("relay-layout ")


@pytest.mark.parametrize(
    "words", [["--help"], *([verb, "--help"] for verb in VERBS), ["compile", "--threads", "0"]]
)
def test_neither_help_nor_a_wrong_argument_imports_tvm(words: list[str]) -> None:
    code = (
        "import sys; from relay_layout.cli.main import main; main(sys.argv[1:]); "
        "assert 'tvm' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0


def test_an_error_of_the_work_is_one_line(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    work.raises = ModelError("model.onnx: bad\n  node \x1b[1m'é'\udcff")
    assert main(["convert", "model.onnx"]) == 2
    assert error_of(capsys) == "relay-layout: error: model.onnx: bad node \\x1b[1m'é'\\udcff"


def test_what_the_system_refuses_is_the_callers(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    work.raises = PermissionError(13, "Permission denied", "model.onnx")
    assert main(["convert", "model.onnx"]) == 2
    assert error_of(capsys) == "relay-layout: error: model.onnx: Permission denied"


def test_an_internal_error(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    work.raises = IndexError("\nlist index  out of range\n@I.ir_module\nclass Module:\n    ...")
    assert main(["convert", "model.onnx"]) == 1
    assert error_of(capsys) == (
        "relay-layout: internal error: IndexError: list index out of range; "
        "please report it with the output of --traceback"
    )


def test_a_lack_of_memory(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    work.raises = MemoryError("Unable to allocate 3.55 PiB")
    assert main(["convert", "model.onnx"]) == 1
    assert error_of(capsys) == "relay-layout: error: out of memory: Unable to allocate 3.55 PiB"


def test_traceback_shows_where_an_error_arose(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    work.raises = IndexError("list index out of range")
    assert main(["convert", "model.onnx", "--traceback"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == (
        "relay-layout: internal error: IndexError: list index out of range; please report it"
    )


def test_an_interrupt(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    work.raises = KeyboardInterrupt()
    assert main(["convert", "model.onnx"]) == 130
    assert error_of(capsys) == "relay-layout: interrupted"


def test_an_interrupt_that_native_code_turned_into_an_error(
    work: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def convert(*_: Any, **__: Any) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("in native code") from None

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(relay_layout), "convert", convert)
        assert main(["convert", "model.onnx"]) == 130
    assert error_of(capsys) == "relay-layout: interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_interrupts(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def convert(*_: Any, **__: Any) -> None:
        signal.raise_signal(signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(relay_layout), "convert", convert)
        assert main(["convert", "model.onnx"]) == 130
    assert error_of(capsys) == "relay-layout: interrupted"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_interrupt_while_the_command_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupting:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "relay_layout.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "relay_layout.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert entry_point() == 130
    assert error_of(capsys) == "relay-layout: interrupted"


def test_with_json_standard_output_holds_the_object_alone(
    work: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    def convert(*_: Any, **__: Any) -> Any:
        print("python prints")
        os.write(1, b"native code prints\n")
        return original("model.onnx")

    original = work.convert
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(relay_layout), "convert", convert)
        assert main(["convert", "model.onnx", "--json"]) == 0
    captured = capfd.readouterr()
    assert json.loads(captured.out) == {
        "layout_transforms": 2,
        "layout_transforms_weights": 53,
        "verified": True,
    }
    assert captured.out.count("\n") == 1
    assert "python prints\n" in captured.err
    assert "native code prints\n" in captured.err


def test_after_json_standard_output_works_again(work: Any, capfd: pytest.CaptureFixture[str]) -> None:
    work.raises = ModelError("bad")
    assert main(["convert", "model.onnx", "--json"]) == 2
    print("python prints")
    os.write(1, b"native code prints\n")
    assert capfd.readouterr().out.splitlines() == ["python prints", "native code prints"]


def test_the_command_in_a_process_of_its_own(tmp_path: Path) -> None:
    done = command("run", "--threads", "many", "a.artifact", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "relay-layout: error: run: argument --threads: expected a whole number of 1 to 65536, got 'many'; "
        "see relay-layout run --help\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_that_cannot_be_written() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "relay_layout", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 2
    assert done.stderr == "relay-layout: error: standard output: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_error_that_cannot_be_written(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "relay_layout", "run", "nothere.rla"],
            stdout=subprocess.PIPE,
            stderr=full,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
        )
    assert (done.returncode, done.stdout) == (2, b"")


CLOSING = """
import os, sys
for descriptor in map(int, sys.argv[1]):
    os.close(descriptor)
sys.stdout = sys.stderr = None
from relay_layout.cli.main import main
status = main(["run", "nothere.rla"])
with open("told", "w") as file:
    file.write(f"{status} {file.fileno() > 2}")
"""


@pytest.mark.parametrize("descriptors", ["012", "2", "1"])
def test_no_file_gets_the_number_of_a_closed_standard_stream(descriptors: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", CLOSING, descriptors]
    done = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "told").read_text() == "2 True"


def test_a_reader_that_goes_away() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "relay_layout", "--help"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("script", "verb"), [("compile.py", "compile"), ("run.py", "run"), ("benchmark.py", "bench")]
)
def test_scripts_are_the_verbs(script: str, verb: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.startswith(f"usage: relay-layout {verb} ")
