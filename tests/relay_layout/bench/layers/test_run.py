"""The layers of networks, measured in small processes of their own and with times that are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay_layout.bench.layers import measurer, run
from relay_layout.bench.layers.measurer import TINY, LayerTimes
from relay_layout.bench.layers.results import failed
from relay_layout.bench.layers.run import run_layers
from relay_layout.errors import ModelError
from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.tuning.tasks import ModelTasks
from topi_ext.tune.task import Task


@pytest.fixture(scope="module")
def target() -> BuildTarget:
    return resolve_target(threads=1, shipped_records=False)


def test_a_network_in_both_runtimes(
    convolution_model: Path, target: BuildTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(measurer, "PEAK_SECONDS", 0.01)
    result = run_layers([str(convolution_model)], target, seconds=0.01)
    (model,) = result["models"]
    assert model["model"] == str(convolution_model)
    assert [(layer["layer"].split()[0], layer["uses"]) for layer in model["layers"]] == [
        ("conv2d", 1),
        ("dense", 1),
    ]
    for layer in model["layers"]:
        ours, onednn = layer["ours_us"], layer["onednn_us"]
        assert ours is not None
        assert onednn is not None
        assert layer["ratio"] == ours / onednn
        assert layer["gflops"] == pytest.approx(layer["gigaflop"] / ours * 1e6)
        assert layer["peak_share"] == pytest.approx(layer["gigaflop"] / ours * 1e6 / result["peak_gflops"])
        assert (layer["source"], layer["agrees"], layer["failures"]) == ("default", True, [])
    assert model["layers"][0]["gigaflop"] == 2 * 16 * 16 * 8 * 3 * 9 / 1e9
    assert model["notes"] == []
    assert result["peak_gflops"] > 1.0
    assert set(result["call_us"]) == {"relay-layout", "oneDNN"}
    assert set(result["versions"]) == {"relay-layout", "torch"}
    assert not failed(result)


def test_a_model_that_is_not_there(target: BuildTarget) -> None:
    with pytest.raises(ModelError, match=r"absent\.onnx"):
        run_layers(["absent.onnx"], target)


class FakeMeasurer:
    """Stands for LayerMeasurer; its peak rises."""

    missing: str | None = "oneDNN: needs torch"

    def __init__(self, target: BuildTarget, seconds: float) -> None:
        self.seconds = seconds
        self.peaks = iter([100.0, 110.0])
        self.measured: list[Any] = []
        FakeMeasurer.last = self

    last: FakeMeasurer

    def __enter__(self) -> FakeMeasurer:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def peak_gflops(self) -> float:
        return next(self.peaks)

    def call_us(self) -> dict[str, float]:
        return {}

    def versions(self) -> dict[str, str]:
        return {}

    def measure(self, workload: Any, knobs: Any) -> LayerTimes:
        self.measured.append(workload)
        return LayerTimes(float(len(self.measured)))


def test_shared_layers_are_measured_once_and_others_are_noted(
    target: BuildTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, half = replace(TINY, in_width=32), replace(TINY, dtype="float16", out_dtype="float16")
    tasks = {
        "a": ModelTasks([Task("wide", wide, 2), Task("tiny", TINY, 5)], ["a: conv has symbolic extents"]),
        "b": ModelTasks([Task("half", half), Task("tiny", TINY)], []),
    }
    asked: list[Any] = []

    def model_tasks(models: list[str], target: BuildTarget, options: Any) -> ModelTasks:
        asked.append(options)
        return tasks[models[0]]

    monkeypatch.setattr(run, "model_tasks", model_tasks)
    monkeypatch.setattr(run, "LayerMeasurer", FakeMeasurer)
    said: list[str] = []
    result = run_layers(["a", "b"], target, seconds=0.25, input_shapes={"x": (1, 3)}, progress=said.append)
    assert asked == [{"input_shapes": {"x": (1, 3)}}] * 2
    assert FakeMeasurer.last.seconds == 0.25
    assert FakeMeasurer.last.measured == [wide, TINY]
    first, second = result["models"]
    assert [(layer["uses"], layer["ours_us"]) for layer in first["layers"]] == [(2, 1.0), (5, 2.0)]
    assert [(layer["uses"], layer["ours_us"]) for layer in second["layers"]] == [(1, 2.0)]
    assert first["notes"] == ["conv has symbolic extents", "oneDNN: needs torch"]
    assert second["notes"] == ["half computes in float16 and is not measured", "oneDNN: needs torch"]
    assert result["peak_gflops"] == 110.0
    assert said == [
        "measuring the multiply-add peak",
        "a: layer 1 of 2: wide",
        "a: layer 2 of 2: tiny",
    ]


@pytest.fixture
def two_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every network has two layers."""
    tasks = [Task("wide", replace(TINY, in_width=32), 2), Task("tiny", TINY, 5)]
    monkeypatch.setattr(run, "model_tasks", lambda *_: ModelTasks(tasks, []))


def interrupting(raised: type[BaseException] | None) -> type[FakeMeasurer]:
    """A measurer whose second layer is interrupted, or fails of an interrupt where nothing is raised."""

    class Interrupted(FakeMeasurer):
        def measure(self, workload: Any, knobs: Any) -> LayerTimes:
            if self.measured and raised is not None:
                raise raised
            times = super().measure(workload, knobs)
            return LayerTimes(failures=("killed by SIGINT",)) if len(self.measured) > 1 else times

    return Interrupted


@pytest.mark.parametrize("raised", [KeyboardInterrupt, None])
def test_what_was_measured_outlives_an_interrupt(
    target: BuildTarget,
    monkeypatch: pytest.MonkeyPatch,
    two_layers: None,
    raised: type[BaseException] | None,
) -> None:
    monkeypatch.setattr(run, "LayerMeasurer", interrupting(raised))
    result = run_layers(["a"], target, interrupted=lambda: len(FakeMeasurer.last.measured) > 1)
    (model,) = result["models"]
    assert [(layer["uses"], layer["ours_us"]) for layer in model["layers"]] == [(2, 1.0)]
    assert model["notes"] == ["interrupted: 1 of 2 layers were not measured", "oneDNN: needs torch"]
    assert result["peak_gflops"] == 100.0


def test_an_interrupt_before_the_first_layer_is_one(
    target: BuildTarget, monkeypatch: pytest.MonkeyPatch, two_layers: None
) -> None:
    monkeypatch.setattr(run, "LayerMeasurer", FakeMeasurer)
    with pytest.raises(KeyboardInterrupt):
        run_layers(["a"], target, interrupted=lambda: True)
