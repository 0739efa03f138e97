"""The layers of networks, measured in small processes of their own and with times that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay_layout.bench import layers
from relay_layout.bench.layers import TINY, LayerMeasurer, LayerTimes, layer_row, run_layers
from relay_layout.bench.layers_results import LayerRow, failed, is_noisy, totals
from relay_layout.bench.peers import CallablePeer
from relay_layout.errors import ModelError
from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.tuning.tasks import ModelTasks
from topi_ext.kernel_choice import KernelChoice
from topi_ext.knobs import ConvolutionKnobs, WinogradKnobs
from topi_ext.tune.task import Task

DIRECT = ConvolutionKnobs(16, 1, 1)


@pytest.fixture(scope="module")
def target() -> BuildTarget:
    return resolve_target(threads=1, shipped_records=False)


@pytest.fixture(scope="module")
def measurer(target: BuildTarget) -> Iterator[LayerMeasurer]:
    pytest.importorskip("torch")
    with LayerMeasurer(target, seconds=0.01) as measurer:
        yield measurer


def row(
    uses: int,
    ours: float | None = 10.0,
    onednn: float | None = 20.0,
    *,
    error: float | None = 1e-6,
    gigaflop: float = 0.001,
) -> LayerRow:
    workload = replace(TINY, in_width=round(gigaflop * 1e9 / 2 / 256))
    times = LayerTimes(ours, onednn, relative_error=error)
    return layer_row(workload, uses, KernelChoice(DIRECT, "default", 1.0), times, 1000.0)


def test_a_network_in_both_runtimes(
    convolution_model: Path, target: BuildTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(layers, "PEAK_SECONDS", 0.01)
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


def test_a_kernel_that_fails_is_named_and_the_next_one_is_measured(measurer: LayerMeasurer) -> None:
    bad = measurer.measure(TINY, ConvolutionKnobs(16, 2, 1))
    assert bad.ours_us is None
    assert bad.onednn_us is not None
    assert bad.relative_error is None
    (failure,) = bad.failures
    assert failure.startswith("relay-layout: knobs {")
    assert failure.endswith("tile of 2 pixels on a run of 1")
    good = measurer.measure(TINY, DIRECT)
    assert good.failures == ()
    assert good.ours_us is not None
    assert good.ours_least_us is not None
    assert good.ours_least_us <= good.ours_us
    assert good.relative_error is not None
    assert good.relative_error < 1e-6


def test_without_torch_there_are_our_times(target: BuildTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = CallablePeer("oneDNN", layers.ONEDNN.prepare_model, ("a_package_nobody_has",), "torch")
    monkeypatch.setattr(layers, "ONEDNN", absent)
    with LayerMeasurer(target, seconds=0.01) as measurer:
        times = measurer.measure(TINY, DIRECT)
        assert measurer.missing == "oneDNN: needs a_package_nobody_has: pip install 'relay-layout[bench]'"
    assert times.ours_us is not None
    assert (times.onednn_us, times.relative_error, times.failures) == (None, None, ())
    assert set(measurer.versions()) == {"relay-layout"}


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

    monkeypatch.setattr(layers, "model_tasks", model_tasks)
    monkeypatch.setattr(layers, "LayerMeasurer", FakeMeasurer)
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


def test_totals_count_uses() -> None:
    found = totals([row(3), row(1, 40.0, 20.0, gigaflop=0.002)], 1000.0)
    assert (found["uses"], found["ours_us"], found["onednn_us"]) == (4, 70.0, 80.0)
    assert found["gigaflop"] == pytest.approx(0.005, rel=1e-3)
    assert found["gflops"] == pytest.approx(0.005 / 70e-6, rel=1e-3)
    assert found["peak_share"] == pytest.approx(0.005 / 70e-6 / 1000, rel=1e-3)
    assert found["ratio"] == pytest.approx(70 / 80)
    assert found["geometric_mean"] == pytest.approx(1.0)


def test_layers_without_both_times_or_with_other_results_are_in_no_ratio() -> None:
    found = totals([row(1), row(1, None), row(1, 30.0, None), row(1, 1.0, 900.0, error=0.5)], 1000.0)
    assert found["ratio"] == found["geometric_mean"] == pytest.approx(0.5)
    assert found["ours_us"] == 41.0


def test_totals_of_nothing() -> None:
    found = totals([row(2, None, None, error=None)], 1000.0)
    assert (found["gflops"], found["peak_share"], found["ratio"], found["geometric_mean"]) == (None,) * 4


def test_results_agree_only_where_they_were_compared() -> None:
    assert row(1)["agrees"] is True
    assert row(1, error=0.01)["agrees"] is False
    assert row(1, error=None)["agrees"] is False
    assert row(1, onednn=None, error=None)["agrees"] is None


def test_algorithms_have_names() -> None:
    assert layers.algorithm(DIRECT) == "direct"
    assert layers.algorithm(WinogradKnobs(4, 16, 16, 7, 2)) == "winograd F(4,3)"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(1)], False),
        ([row(1), row(1, None)], True),
        ([row(1, error=0.5)], True),
        ([row(1, onednn=None)], False),
    ],
)
def test_only_our_own_failures_fail(rows: list[LayerRow], expected: bool) -> None:
    model = {"model": "m", "layers": rows, "totals": totals(rows, 1.0), "notes": []}
    result: Any = {"models": [model]}
    assert failed(result) is expected


def test_noise_is_a_median_far_above_the_least() -> None:
    assert is_noisy(16.0, 10.0)
    assert not is_noisy(14.0, 10.0)
    assert not is_noisy(None, None)
