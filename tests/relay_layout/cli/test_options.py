"""Options that verbs share, and their errors, word for word."""

import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from relay_layout.cli.main import main
from relay_layout.cli.options import CONVERSION, ModelOptions, Parser


def options_given(work: Any, *words: str) -> dict[str, Any]:
    assert main(["convert", "model.onnx", *words]) == 0
    keywords: dict[str, Any] = work.keywords()
    return keywords


def error_given(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["convert", "model.onnx", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.rstrip("\n").removeprefix("relay-layout: error: ")


def test_defaults(work: Any) -> None:
    assert options_given(work) == {
        "target": "native",
        "desired_layout": "auto",
        "desired_layout_ops": None,
        "desired_layouts": None,
        "skip_layers": (),
        "input_shapes": None,
        "params": None,
        "input_layouts": {},
        "output_layouts": {},
        "tuning_records": [],
        "shipped_records": True,
        "winograd": True,
        "threads": None,
        "precision": "fp32",
    }


def test_a_layout_for_some_operators(work: Any) -> None:
    words = "--desired-layout NHWC --desired-layout-ops nn.conv2d nn.max_pool2d --desired-layout-ops add"
    options = options_given(work, *words.split())
    assert options["desired_layout"] == "NHWC"
    assert options["desired_layout_ops"] == ["nn.conv2d", "nn.max_pool2d", "add"]


def test_layouts_by_operator(work: Any) -> None:
    options = options_given(work, "--desired-layouts", '{"nn.conv2d": ["NHWC", "default"]}')
    assert options["desired_layouts"] == {"nn.conv2d": ["NHWC", "default"]}


def test_target_and_layers_to_skip(work: Any) -> None:
    options = options_given(work, "--target", '{"kind": "llvm"}', "--skip-layers", "0, 3")
    assert options["target"] == '{"kind": "llvm"}'
    assert options["skip_layers"] == (0, 3)


@pytest.mark.parametrize(
    "words",
    [
        "compile model.onnx -o model.rla",
        "convert model.onnx",
        "explain model.onnx",
        "analyse model.onnx",
        "tune model.onnx -o log.jsonl",
        "fleet model.onnx -o logs --rpc-tracker host:9190 --board pi5=aarch64-cortex-a76",
    ],
)
def test_what_kernels_are_made_for_is_asked_of_every_verb_that_chooses_layouts(words: str) -> None:
    verb, *rest = words.split()
    parser = Parser(verb, "")
    import_module(f"relay_layout.cli.{verb}").add_arguments(parser)
    given = parser.parse_args([*rest, "--threads", "3", "--precision", "bf16"])
    asked = ModelOptions.read(given)
    assert (asked.threads, asked.precision) == (3, "bf16")
    assert [each.name for each in CONVERSION if each.is_given(given)] == ["--threads", "--precision"]


@pytest.mark.parametrize("text", ["x:1,3,224,224", "x:[1,3,224,224]", "x:[1, 3, 224, 224]"])
def test_an_input_shape(text: str, work: Any) -> None:
    assert options_given(work, "--input-shape", text)["input_shapes"] == {"x": (1, 3, 224, 224)}


def test_input_shapes(work: Any) -> None:
    options = options_given(work, "--input-shape", "input:0:1,3", "--input-shape", "mask:7")
    assert options["input_shapes"] == {"input:0": (1, 3), "mask": (7,)}


@pytest.mark.parametrize(
    "text", ["", "x", "x:", "1,3", ":1,3", "x:1,,3", "x:1,a", "x:0,3", "x:-1,3", "x:1.5", "x:[1,3", "x:1_0"]
)
def test_an_input_shape_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_given(capsys, f"--input-shape={text}") == (
        f"convert: argument --input-shape: expected NAME:1,3,224,224 with numbers from 1 on, got '{text}'; "
        "see relay-layout convert --help"
    )


def test_the_shape_of_an_input_given_twice(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_given(capsys, "--input-shape", "x:1,3", "--input-shape", "x:1,4")
    assert message == "--input-shape: the shape of input 'x' is given twice"


@pytest.mark.parametrize("text", ["", "a", "0,", "-1", "0;3", "1.0", "9" * 19])
def test_layers_to_skip_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_given(capsys, f"--skip-layers={text}") == (
        f"convert: argument --skip-layers: expected numbers from 0 on, such as 0,3, got '{text}'; "
        "see relay-layout convert --help"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NHWC", "Expecting value at column 1"),
        ('{"nn.conv2d": ["NHWC"', "Expecting ',' delimiter at column 22"),
        ("[" * 100_000, "not readable as JSON"),
        ("[]", "it names no operator"),
        ("{}", "it names no operator"),
        ('{"nn.conv2d": "NHWC"}', "'nn.conv2d' has no list of layouts"),
        ('{"nn.conv2d": []}', "'nn.conv2d' has no list of layouts"),
        ('{"nn.conv2d": ["NHWC", 3]}', "'nn.conv2d' has no list of layouts"),
    ],
)
def test_layouts_by_operator_that_are_none(
    text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_given(capsys, "--desired-layouts", text) == (
        "convert: argument --desired-layouts: "
        """expected JSON such as '{"nn.conv2d": ["NHWC", "default"]}': """
        f"{reason}; see relay-layout convert --help"
    )


@pytest.mark.parametrize("option", ["--desired-layout", "--desired-layout-ops"])
def test_two_ways_to_say_the_layout(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = error_given(capsys, "--desired-layouts", '{"nn.conv2d": ["NHWC"]}', option, "NHWC")
    assert message == f"--desired-layouts cannot be combined with {option}; give one of them"


@pytest.mark.parametrize("words", [[], ["--desired-layout", "auto"], ["--desired-layout", "none"]])
def test_operators_without_a_layout(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    layout = words[-1] if words else "auto"
    assert error_given(capsys, *words, "--desired-layout-ops", "nn.conv2d") == (
        f"--desired-layout-ops needs a layout for them, but --desired-layout is {layout}; "
        "name one, such as --desired-layout NHWC"
    )


@pytest.mark.parametrize("text", ["0", "-2", "two", "1.5", "65537", ""])
def test_a_number_of_threads_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "m", "-o", "a", f"--threads={text}"]) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: compile: argument --threads: expected a whole number of 1 to 65536, "
        f"got '{text}'; see relay-layout compile --help\n"
    )


def output_error(capsys: pytest.CaptureFixture[str], path: str) -> str:
    assert main(["compile", "model.onnx", "-o", path]) == 2
    return capsys.readouterr().err


def test_output_that_cannot_be_written(work: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.path.realpath(tmp_path)
    Path("model.onnx").write_bytes(b"model")
    Path("link").symlink_to("model.onnx")
    os.mkfifo("pipe")
    start = "relay-layout: error: -o: "
    assert output_error(capsys, "") == f"{start}the path is empty\n"
    assert output_error(capsys, ".") == f"{start}. is a directory, not a file\n"
    assert output_error(capsys, "a/b") == f"{start}the folder {folder}/a does not exist\n"
    assert output_error(capsys, "pipe") == f"{start}pipe is not a regular file\n"
    assert output_error(capsys, "link") == f"{start}link would overwrite what is being read\n"
    assert work.calls == []
    assert Path("model.onnx").read_bytes() == b"model"


def test_output_of_a_name_that_no_file_can_have(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = "x" * 300
    assert output_error(capsys, path) == f"relay-layout: error: -o: {path}: File name too long\n"
    assert work.calls == []


@pytest.mark.parametrize("option", ["--input-shape", "--desired-layout", "--params", "--tuning-records"])
def test_two_hyphens_are_no_value(option: str, work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_given(capsys, f"{option}=--") == (
        f"convert: argument {option}: expected a value, got '--'; see relay-layout convert --help"
    )
    assert work.calls == []


def test_output_in_a_folder_that_is_not_writable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write anywhere, so the mode of a folder would not do.
    monkeypatch.setattr(os, "access", lambda *_: False)
    folder = os.path.realpath(tmp_path)
    assert output_error(capsys, "a") == f"relay-layout: error: -o: the folder {folder} is not writable\n"


def test_output_where_nothing_can_be_made_though_its_mode_allows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in /proc, where root may write by the folder's mode.
    def refused(**_: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    folder = os.path.realpath(tmp_path)
    assert output_error(capsys, "a") == f"relay-layout: error: -o: the folder {folder} is not writable\n"


@pytest.mark.parametrize("option", ["--params", "--tuning-records"])
def test_output_over_a_file_that_is_read(option: str, work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    Path("given").write_bytes(b"weights")
    assert main(["compile", "model.relay", option, "given", "-o", "given"]) == 2
    assert capsys.readouterr().err == ("relay-layout: error: -o: given would overwrite what is being read\n")
    assert Path("given").read_bytes() == b"weights"
