"""The verb ``run``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout
from relay_layout import models
from relay_layout.artifact import TensorSpec
from relay_layout.cli.main import main
from relay_layout.cli.run import measure, random_inputs


def test_inputs_and_outputs(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez("in.npz", data=data)
    words = ["run", "a.artifact", "--inputs", "in.npz", "--outputs", "out.npz", "--threads", "2", "--json"]
    assert main(words) == 0
    assert work.calls == [("load", ("a.artifact",), {"threads": 2, "target": None})]
    report = json.loads(capsys.readouterr().out)
    assert report["target"] == "wide"
    assert report["outputs"] == [
        {"name": "doubled", "shape": [2, 3], "dtype": "float32"},
        {"name": "file", "shape": [], "dtype": "int64"},
    ]
    assert 0 <= report["latency_ms"]["min"] <= report["latency_ms"]["median"]
    with np.load("out.npz") as stored:
        np.testing.assert_array_equal(stored["doubled"], data * 2)
        assert stored["file"] == 6


def test_without_inputs(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "a.artifact", "--repeat", "4"]) == 0
    # The first run for the outputs, three to warm up, four on the clock.
    assert work.session.runs == 8
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("latency         ")
    assert lines[0].endswith(" ms least of 4 runs")
    assert lines[1:] == [
        "target          wide",
        "output doubled  float32 [1, 3]",
        "output file     int64 []",
    ]


def test_target(work: Any) -> None:
    assert main(["run", "a.artifact", "--target", "x86-64-v3"]) == 0
    assert work.keywords() == {"threads": None, "target": "x86-64-v3"}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "missing input 'data'; the model takes 'data' (float32 [n, 3])"),
        (
            {"data": np.zeros((1, 3), np.float32), "extra": np.zeros(1)},
            "unexpected input 'extra'; the model takes 'data' (float32 [n, 3])",
        ),
        (
            {"data": np.zeros((1, 3), np.float64)},
            "input 'data': expected float32 [n, 3], got float64 [1, 3]; convert with .astype('float32')",
        ),
    ],
)
def test_arrays_that_the_artifact_does_not_take(
    arrays: dict[str, Any], message: str, work: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("in.npz", **arrays)
    assert main(["run", "a.artifact", "--inputs", "in.npz", "--outputs", "out.npz"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"relay-layout: error: in.npz: {message}\n")
    assert [path.name for path in Path().iterdir()] == ["in.npz"]


def test_a_file_of_inputs_is_read_before_the_artifact(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "a.artifact", "--inputs", "in.npz"]) == 2
    expected = "relay-layout: error: in.npz: no such file\n"
    assert capsys.readouterr().err == expected
    assert work.calls == []


@pytest.mark.parametrize("path", ["a.artifact", "in.npz"])
def test_outputs_over_what_is_being_read(path: str, work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("in.npz", data=np.zeros((1, 3), np.float32))
    Path("a.artifact").write_bytes(b"artifact")
    assert main(["run", "a.artifact", "--inputs", "in.npz", "--outputs", path]) == 2
    expected = f"relay-layout: error: --outputs: {path} would overwrite what is being read\n"
    assert capsys.readouterr().err == expected


def test_random_inputs_are_the_same_each_time_and_valid() -> None:
    specs = [
        TensorSpec("image", ("n", 3, 8, 8), "float32"),
        TensorSpec("half", (2,), "float16"),
        TensorSpec("index", (100,), "int64"),
        TensorSpec("flag", (100,), "bool"),
        TensorSpec("quantized", (5000,), "int8"),
        TensorSpec("pixels", (5000,), "uint8"),
        TensorSpec("scalar", (), "float32"),
        TensorSpec("none", (0, 3), "int32"),
    ]
    arrays = random_inputs(specs)
    for spec in specs:
        spec.check(arrays[spec.name])
    assert arrays["image"].shape == (1, 3, 8, 8)
    assert set(arrays["index"]) == {0, 1}
    assert set(arrays["flag"]) == {False, True}
    assert (arrays["quantized"].min(), arrays["quantized"].max()) == (-128, 127)
    assert (arrays["pixels"].min(), arrays["pixels"].max()) == (0, 255)
    again = random_inputs(specs)
    assert all(np.array_equal(arrays[spec.name], again[spec.name]) for spec in specs)


def test_measures_after_warming_up() -> None:
    now = 0.0
    durations = iter([9.0, 0.3, 0.1, 0.2])

    def run_once() -> None:
        nonlocal now
        now += next(durations)

    # A warm-up that takes long is the only one.
    assert measure(run_once, 3, lambda: now) == pytest.approx({"min": 100.0, "median": 200.0})


def test_a_declared_order_is_met_or_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = models.NetworkBuilder("small")
    image = builder.input("input", (1, 3, 8, 6))
    module = models.to_relax(builder.build({"output": builder.relu(image, "relu")}))
    relay_layout.compile(module, input_dim_orders={"input": (0, 2, 3, 1)}).save("model.rla")
    assert main(["run", "model.rla", "--repeat", "1"]) == 0
    np.savez("inputs.npz", input=np.ones((1, 3, 8, 6), "float32"))
    capsys.readouterr()
    assert main(["run", "model.rla", "--inputs", "inputs.npz", "--repeat", "1"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "inputs.npz: input 'input': lies in memory in dim_order (0, 1, 2, 3), NCHW" in message
    assert main(["run", "model.rla", "--inputs", "inputs.npz", "--permute", "--repeat", "1"]) == 0


def test_outputs_are_an_npz_file(work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes.txt").write_text("kept")
    assert main(["run", "model.rla", "--outputs", "notes.txt"]) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: --outputs: notes.txt must end in .npz (arrays by name)\n"
    )
    assert (work.calls, Path("notes.txt").read_text()) == ([], "kept")
