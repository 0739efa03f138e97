"""The verb ``analyse``, and ``tune --modelled``, on a small network for an ARM core."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from relay_layout.cli.main import main
from topi_ext.errors import RelayLayoutError
from topi_ext.tune.models import machine_code, static_model
from topi_ext.tune.records.log import load

needs_analyser = pytest.mark.usefixtures("llvm_mca")
ARM = ["--target", "aarch64-cortex-a76", "--no-shipped-records"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds net.onnx, one convolution of 16 to 16 channels."""
    weight = np.random.default_rng(0).normal(size=(16, 16, 3, 3)).astype("float32")
    shape = [1, 16, 14, 14]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.strip().splitlines()[-1]


@needs_analyser
def test_tuned_by_the_model_and_analysed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "net.onnx", "-o", "log.jsonl", "--modelled", "--trials", "4", *ARM, "--json"]) == 0
    tuned = json.loads(capsys.readouterr().out)
    assert (tuned["measured"], tuned["ended"]) == (4, "done")
    records, problems = load([folder / "log.jsonl"])
    assert not problems and {record.origin for record in records} == {"modelled"}
    assert main(["analyse", "net.onnx", "--tuning-records", "log.jsonl", *ARM, "--json"]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    assert (task["chosen"]["source"], task["default"]["source"]) == ("modelled", "default")
    assert task["chosen"]["microseconds"] <= task["default"]["microseconds"]
    assert 0 < task["chosen"]["share"] <= task["chosen"]["attainable"] == 1


@needs_analyser
def test_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", "net.onnx", *ARM]) == 0
    head, row, *_, goal, attainable, times = capsys.readouterr().out.splitlines()
    columns = ["share", "attainable", "busy", "spills", "loads/FMA", "us"]
    assert head.split() == ["kernel", "uses", "from", *columns, "default", *columns]
    assert row.startswith("conv2d 16x14x14 -> 16 3x3 NCHW")
    assert goal.startswith("90% of the multiply-add throughput without spills: ")
    assert attainable.startswith("90% of what epilogue and stores in a loop leave of it: ")
    assert times.startswith("modelled, all uses: ")


def test_no_boards_where_nothing_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--modelled", "--rpc-tracker", "host:9190", "--rpc-key", "pi"]
    assert main(["tune", "net.onnx", "-o", "log.jsonl", *words, *ARM]) == 2
    assert error_line(capsys) == (
        "relay-layout: error: --modelled runs nothing, so --rpc-tracker cannot be combined with it; give one "
        "of them"
    )


def test_no_model_of_transforms(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--modelled", "--tasks", "transforms"]
    assert main(["tune", "net.onnx", "-o", "log.jsonl", *words, *ARM]) == 2
    assert error_line(capsys) == (
        "relay-layout: error: --modelled has no model of layout transforms; leave out --tasks transforms"
    )


@pytest.mark.parametrize("words", [["analyse", "net.onnx"], ["tune", "net.onnx", "-o", "l", "--modelled"]])
def test_a_target_without_a_model(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--target", "x86-64-v3"]) == 2
    assert error_line(capsys) == (
        "relay-layout: error: there is no scheduling model of x86-64 AVX2; give a target such as "
        "aarch64-cortex-a76, whose core has one"
    )


def test_no_analyser(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise RelayLayoutError("modelling needs llvm-mca")

    monkeypatch.setattr(static_model, "analyser", missing)
    monkeypatch.setattr(machine_code, "analyser", missing)
    assert main(["analyse", "net.onnx", *ARM]) == 2
    assert error_line(capsys) == "relay-layout: error: modelling needs llvm-mca"
