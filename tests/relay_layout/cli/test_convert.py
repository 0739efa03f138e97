"""The verb ``convert``."""

import json
from typing import Any

import pytest

from relay_layout.cli.layout_report import layout_rows
from relay_layout.cli.main import main

SUMMARY = [
    "convolutions       none",
    "layout transforms  2 on activations and anything computed",
    "on weights         53 on parameters and constants",
    "verified           yes",
]


def test_tells_what_is_left(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "model.onnx"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == SUMMARY
    assert captured.err == ""


def test_prints_the_module_alone(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "model.onnx", "--print"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "# module\nclass Module: ...\n"
    assert captured.err.splitlines() == SUMMARY


def test_with_json_the_module_goes_to_standard_error(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "model.onnx", "--print", "--json"]) == 0
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    assert json.loads(line)["layout_transforms_weights"] == 53
    assert captured.err.endswith("# module\nclass Module: ...\n")


def test_says_why_a_convolution_was_not_converted() -> None:
    reasons = {f"conv{number}": "3 input channels do not\ndivide by 16" for number in range(22)}
    rows = layout_rows({"layouts": {"conv9": "NHWC->NHWC"}, "not_converted": reasons})
    assert rows[0] == ["convolutions", "1 NHWC"]
    assert rows[1] == ["not converted", "conv0: 3 input channels do not divide by 16"]
    assert len(rows) == 22
    assert rows[-1] == ["", "and 2 more; --json names all"]
