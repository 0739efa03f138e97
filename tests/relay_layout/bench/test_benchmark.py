"""Whole benchmarks on small models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from relay_layout.bench import benchmark
from relay_layout.bench.benchmark import run_bench
from relay_layout.bench.peers import OURS, PEERS, CallablePeer, PeerUnavailable
from relay_layout.bench.table import format_table
from relay_layout.errors import InputError, ModelError

WriteRelu = Callable[..., Path]


def cannot_compile(path: Path, threads: int) -> Path:
    """Stands in for relay-layout where a test is about its peers."""
    raise RuntimeError("not in this test")


def test_bad_peers_are_reported_and_the_others_measured(relu_model: WriteRelu, example_peers: str) -> None:
    names = [f"{example_peers}:{name}" for name in ("exact", "wrong", "killed", "dying", "absent")]
    exact, wrong, killed, dying, absent = names
    progress: list[str] = []
    result = run_bench(
        [("relu", relu_model("N", 64))],
        [*names, "onnxruntime"],
        threads=1,
        seconds=0.05,
        ours=cannot_compile,
        progress=progress.append,
    )
    (model,) = result["models"]
    assert set(model["peers"]) == {exact, wrong, "onnxruntime"}
    assert set(model["failures"]) == {OURS, killed, dying, absent}
    assert model["failures"][OURS] == "relay-layout: not in this test"
    assert "killed by SIGKILL" in model["failures"][killed]
    assert "exit status 3" in model["failures"][dying]
    assert "pip install 'relay-layout[bench]'" in model["failures"][absent]
    assert (model["peers"][exact]["agrees"], model["peers"][wrong]["agrees"]) == (True, False)
    assert model["peers"][exact]["relative_error"] == 0.0
    assert model["peers"][exact]["repeats"] >= 5
    assert "relu: preparing onnxruntime" in progress
    assert "!" in format_table(result)
    assert json.dumps(result, allow_nan=False)


def test_networks_of_any_size(relu_model: WriteRelu) -> None:
    result = run_bench(
        [("relu", relu_model(1, 3, 8, 8))],
        ["onnxruntime"],
        threads=1,
        seconds=0.05,
        input_shapes={"x": (2, 3, 5, 7)},
        any_size=True,
    )
    (model,) = result["models"]
    assert set(model["peers"]) == {OURS, "onnxruntime"} and model["peers"][OURS]["agrees"]


def test_ours_is_compiled_once_and_its_artifact_measured(
    relu_model: WriteRelu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example_peers: str
) -> None:
    # The worker of this test is the peer "exact" under relay-layout's name.
    compiled: list[tuple[Path, int]] = []
    asked: list[Path] = []
    start = benchmark.WorkerProcess

    class Redirected(start):
        def __init__(self, peer: str, threads: int) -> None:
            super().__init__(f"{example_peers}:exact" if peer == OURS else peer, threads)

        def prepare(self, model: Path, *arguments: object, **options: object) -> dict[str, object]:
            asked.append(model)
            return super().prepare(model, *arguments, **options)

    def compile_ours(path: Path, threads: int) -> Path:
        compiled.append((path, threads))
        return tmp_path / "artifact"

    monkeypatch.setattr(benchmark, "WorkerProcess", Redirected)
    path = relu_model(1, 64)
    result = run_bench(
        [("relu", path)],
        ["onnxruntime"],
        threads=1,
        seconds=0.05,
        ours=compile_ours,
        progress=lambda line: None,
    )
    assert compiled == [(path, 1)]
    assert asked == [tmp_path / "artifact", path]
    (model,) = result["models"]
    assert list(model["ratios"]) == ["onnxruntime"]
    assert result["geometric_mean"]["onnxruntime"] == pytest.approx(model["ratios"]["onnxruntime"])


def test_who_asks_hears_of_each_model(relu_model: WriteRelu) -> None:
    path, heard = relu_model(1, 64), []
    result = run_bench(
        [("first", path), ("second", path)],
        ["onnxruntime"],
        threads=1,
        seconds=0.05,
        ours=cannot_compile,
        progress=lambda line: None,
        measured=heard.append,
    )
    assert [[model["model"] for model in each["models"]] for each in heard] == [
        ["first"],
        ["first", "second"],
    ]
    assert heard[-1] == result


def test_outputs_are_compared_even_if_onnxruntime_is_not_among_the_peers(
    relu_model: WriteRelu, example_peers: str
) -> None:
    name = f"{example_peers}:wrong"
    result = run_bench(
        [("relu", relu_model(1, 64))],
        [name],
        threads=1,
        seconds=0.05,
        ours=cannot_compile,
        progress=lambda line: None,
    )
    assert set(result["models"][0]["peers"]) == {name}
    assert result["models"][0]["peers"][name]["agrees"] is False


def test_without_onnxruntime_outputs_are_not_compared(
    relu_model: WriteRelu, example_peers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = CallablePeer("onnxruntime", PEERS["onnxruntime"].prepare, ("a_package_nobody_has",))
    monkeypatch.setitem(PEERS, "onnxruntime", gone)
    name = f"{example_peers}:exact"
    progress: list[str] = []
    result = run_bench(
        [("relu", relu_model(1, 64))],
        [name, "onnxruntime"],
        threads=1,
        seconds=0.05,
        ours=cannot_compile,
        progress=progress.append,
    )
    (model,) = result["models"]
    assert model["peers"][name]["agrees"] is None
    assert "pip install 'relay-layout[bench]'" in model["failures"]["onnxruntime"]
    assert "relu: onnxruntime is not installed, outputs are not compared" in progress


def test_missing_peers_raise_on_request(relu_model: WriteRelu, example_peers: str) -> None:
    with pytest.raises(PeerUnavailable, match="a_package_nobody_has"):
        run_bench([("relu", relu_model(1, 4))], [f"{example_peers}:absent"], threads=1, require_peers=True)


def test_bad_input_is_refused_before_anything_is_measured(relu_model: WriteRelu, tmp_path: Path) -> None:
    def never(path: Path, threads: int) -> Path:
        raise AssertionError("compiled although a model is bad")

    good = ("good", relu_model(1, 4))
    with pytest.raises(InputError, match="unknown peer 'nobody'"):
        run_bench([good], ["nobody"], threads=1, ours=never)
    with pytest.raises(ModelError, match="no such file"):
        run_bench([good, ("bad", tmp_path / "none.onnx")], [], threads=1, ours=never)


def test_given_input_shapes_reach_every_peer(relu_model: WriteRelu, example_peers: str) -> None:
    name = f"{example_peers}:exact"
    result = run_bench(
        [("relu", relu_model("N", "W"))],
        [name],
        threads=1,
        seconds=0.05,
        ours=cannot_compile,
        input_shapes={"x": (2, 5)},
        progress=lambda line: None,
    )
    assert result["models"][0]["peers"][name]["agrees"] is True


@pytest.mark.slow
def test_all_peers_on_a_small_convolution(
    convolution_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_bench([("small", convolution_model)], threads=1, seconds=0.2, ours=cannot_compile)
    (model,) = result["models"]
    assert all(peer["agrees"] for peer in model["peers"].values())
    assert np.isfinite([peer["median_ms"] for peer in model["peers"].values()]).all()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "small: measuring" in captured.err


@pytest.mark.parametrize("disguised", [False, True])
def test_what_was_measured_outlives_an_interrupt(
    relu_model: WriteRelu, example_peers: str, disguised: bool
) -> None:
    interrupts: list[int] = []
    compiled: list[Path] = []

    def ours(path: Path, threads: int) -> Path:
        compiled.append(path)
        if len(compiled) == 2:
            interrupts.append(2)
            raise RuntimeError("a linker was killed") if disguised else KeyboardInterrupt
        raise RuntimeError("not in this test")

    model = relu_model("N", 64)
    result = run_bench(
        [("a", model), ("b", model)],
        [f"{example_peers}:exact"],
        threads=1,
        seconds=0.01,
        ours=ours,
        interrupted=lambda: bool(interrupts),
    )
    assert [model["model"] for model in result["models"]] == ["a"]


def test_an_interrupt_before_the_first_model_is_one(relu_model: WriteRelu) -> None:
    def ours(path: Path, threads: int) -> Path:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_bench([("a", relu_model("N", 64))], [], threads=1, ours=ours)
