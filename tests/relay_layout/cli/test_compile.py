"""The verb ``compile``."""

import json
from pathlib import Path
from typing import Any

import pytest

from relay_layout.cli.compile import targets
from relay_layout.cli.main import main
from relay_layout.errors import ModelError


def test_compiles_and_saves(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "resnet50", "-o", "a.artifact", "--threads", "2"]) == 0
    ((name, arguments, keywords),) = work.calls
    assert (name, arguments) == ("compile", ("resnet50",))
    assert callable(keywords.pop("progress"))
    assert keywords == {
        "target": "native",
        "desired_layout": "auto",
        "desired_layout_ops": None,
        "desired_layouts": None,
        "skip_layers": (),
        "input_shapes": None,
        "params": None,
        "input_layouts": {},
        "output_layouts": {},
        "threads": 2,
        "tuning_records": [],
        "shipped_records": True,
        "winograd": True,
        "precision": "fp32",
    }
    assert Path("a.artifact").stat().st_size == 1234
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines()[1:] == [
        "artifact           a.artifact, 1.2 kB",
        "target             llvm x86_64-linux-gnu skylake-avx512, threads: 2",
        "operators          69",
        "convolutions       2 NCHW16c, 1 NCHW->NCHW16c",
        "layout transforms  1 left, 602.1 kB moved per run",
        "solver             optimal, 312.5 us estimated, 0.04 s",
        "kernels            40 tuned, 12 default, 1 fallback",
        "compiled in        12.3 s",
    ]


def test_json_is_the_report(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "resnet50", "-o", "a.artifact", "--json"]) == 0
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    report = json.loads(line)
    assert report["kernels"] == {"tuned": 40, "default": 12, "fallback": 1}
    assert report["solver"] == {"status": "optimal", "objective_us": 312.54, "seconds": 0.042}
    assert (report["ops"], report["layout_transforms"], report["layout_transform_bytes"]) == (69, 1, 602112)
    assert report["compile_seconds"] == 12.34
    assert (report["artifact"], report["artifact_bytes"]) == ("a.artifact", 1234)
    assert (report["target"]["mcpu"], report["threads"]) == ("skylake-avx512", 2)
    assert captured.err.startswith("a library prints\nartifact ")


def test_several_targets(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "resnet50", "-o", "a.artifact", "--target", "x86-64-v3,x86-64-v4", "--json"]) == 0
    assert work.keywords()["target"] == ["x86-64-v3", "x86-64-v4"]
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert list(report) == ["artifact", "artifact_bytes", "targets", "compile_seconds"]
    assert [build["name"] for build in report["targets"]] == ["x86-64-v3", "x86-64-v4"]
    assert all(build["ops"] == 69 and build["threads"] == 2 for build in report["targets"])
    assert report["compile_seconds"] == 24.68
    words = [line.split("  ")[0] for line in captured.err.splitlines()[1:]]
    build = ["target", "operators", "convolutions", "layout transforms", "solver", "kernels"]
    assert words == ["artifact", *build, *build, "compiled in"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("native", "native"),
        (" x86-64-v3 , x86-64-v4 ", ["x86-64-v3", "x86-64-v4"]),
        ('{"kind": "llvm", "mcpu": "skylake"}', '{"kind": "llvm", "mcpu": "skylake"}'),
        (
            'x86-64-v3,{"kind": "llvm", "mcpu": "skylake"},a',
            ["x86-64-v3", '{"kind": "llvm", "mcpu": "skylake"}', "a"],
        ),
        ('{"kind": "llvm", "mcpu"', '{"kind": "llvm", "mcpu"'),
        ('{"kind": "llvm"} x, y', ['{"kind": "llvm"} x', "y"]),
    ],
)
def test_lists_of_targets(text: str, expected: str | list[str]) -> None:
    assert targets(text) == expected


@pytest.mark.parametrize("text", ["", "a,", ",a", "a,,b", " , "])
def test_lists_of_targets_with_gaps(text: str, work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "resnet50", "-o", "a.artifact", "--target", text]) == 2
    assert capsys.readouterr().err == f"relay-layout: error: --target: a name is missing in {text!r}\n"
    assert work.calls == []


def test_a_model_that_does_not_compile_leaves_what_was_there(
    work: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.artifact").write_bytes(b"old")
    work.raises = ModelError("model.onnx: no such file")
    assert main(["compile", "model.onnx", "-o", "a.artifact", "--json"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "relay-layout: error: model.onnx: no such file\n")
    assert [path.name for path in Path().iterdir()] == ["a.artifact"]
    assert Path("a.artifact").read_bytes() == b"old"


def test_a_convolution_to_skip_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.artifact"
    assert main(["compile", "resnet18", "-o", str(path), "--skip-layers", "0,20"]) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: there is no convolution 20 to skip; "
        "the model has 20, counted from 0 without transposed ones\n"
    )
    assert not path.exists()


def test_progress_is_shown_on_a_terminal_only(
    work: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["compile", "resnet50", "-o", "a.artifact"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["compile", "resnet50", "-o", "a.artifact"]) == 0
    assert capsys.readouterr().err == "writing a.artifact\n"
