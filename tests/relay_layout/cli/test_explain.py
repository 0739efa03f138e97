"""The verb ``explain``."""

import json
from pathlib import Path

import pytest

from relay_layout.cli.main import main

MODEL = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 9, 9), float32], %w: Tensor[(32, 16, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]);
  nn.softmax(%0, axis=1)
}
"""
REASON = "a block must not cut C, which nn.softmax needs as one run"


@pytest.fixture
def model() -> str:
    Path("model.relay").write_text(MODEL)
    return "model.relay"


def test_a_table_of_all_operators(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", model, "--desired-layout", "NCHW16c"]) == 0
    captured = capsys.readouterr()
    head, first, second, *_ = captured.out.splitlines()
    assert head.split() == ["binding", "operator", "kind", "layouts", "us"]
    assert first.split()[2:7] == ["nn.conv2d", "chosen", "NCHW16c,", "OIHW16i16o", "->"]
    assert first.endswith("after x NCHW -> NCHW16c; after w OIHW -> OIHW16i16o")
    assert second.split()[2:6] == ["nn.softmax", "keeps", "its", "own"]
    assert second.endswith(REASON)
    assert captured.err == ""


def test_one_operator(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", model, "1", "--desired-layout", "NCHW16c"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(", operator 1: nn.softmax, keeps its own")
    assert f"  reason: {REASON}" in lines


def test_json_is_the_last_line(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", model, "--desired-layout", "NCHW16c", "--json"]) == 0
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    found = json.loads(line)
    assert [fact["kind"] for fact in found["operators"]] == ["chosen", "keeps its own"]
    assert found["operators"][1]["reason"] == REASON
    assert {"others", "transforms", "solver_status", "objective_us"} <= set(found)
    assert "nn.softmax" in captured.err


def test_json_of_one_operator(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", model, "0", "--desired-layout", "NCHW16c", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["operator"]["operands"] == ["NCHW16c", "OIHW16i16o"]
    assert [each["chosen"] for each in found["alternatives"]] == [True]


def test_an_unknown_operator_is_bad_input(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", model, "7"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "relay-layout: error: there is no operator 7; indices are 0 to 1\n"
    assert captured.out == ""
