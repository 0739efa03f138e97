"""``relay-layout bench --layers``."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from relay_layout.bench.layers import run
from relay_layout.cli.main import main
from relay_layout.environment import host

TOTALS = {
    "uses": 0,
    "gigaflop": 0.0,
    "ours_us": 0.0,
    "gflops": None,
    "peak_share": None,
    "onednn_us": 0.0,
    "ratio": None,
    "geometric_mean": None,
}


class Layers:
    """Stands for run_layers."""

    def __init__(self) -> None:
        self.models: Any = None
        self.threads = 0
        self.keywords: dict[str, Any] = {}
        self.kernels: Any = None
        self.rows: list[dict[str, Any]] = []
        self.is_interrupted = False

    def __call__(self, models: Any, target: Any, **keywords: Any) -> dict[str, Any]:
        self.models, self.threads, self.keywords = models, target.threads, keywords
        if self.is_interrupted:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert keywords["interrupted"]()
        self.kernels = target.kernels
        return {
            "models": [{"model": "m", "layers": self.rows, "totals": TOTALS, "notes": []}],
            "threads": target.threads,
            "peak_gflops": 100.0,
            "call_us": {},
            "versions": {"relay-layout": "1"},
            "machine": {"cpu": "a processor", "cores": 2, "system": "a system", "python": "3.11"},
        }


@pytest.fixture
def run_layers(monkeypatch: pytest.MonkeyPatch) -> Layers:
    fake = Layers()
    monkeypatch.setattr(run, "run_layers", fake)
    return fake


def test_options(run_layers: Layers, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bench a.onnx resnet18 --layers --threads 1 --seconds 0.25 --input-shape x:1,3 --json"
    assert main(words.split()) == 0
    assert run_layers.models == ["a.onnx", "resnet18"]
    assert run_layers.threads == 1
    assert run_layers.keywords["seconds"] == 0.25
    assert run_layers.keywords["input_shapes"] == {"x": (1, 3)}
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    assert json.loads(line)["peak_gflops"] == 100.0
    assert "multiply-add peak: 100.0 GFLOP/s" in captured.err


def test_defaults(run_layers: Layers, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "a.onnx", "--layers"]) == 0
    assert run_layers.threads == host.cpu_count()
    assert run_layers.keywords["seconds"] == 0.5
    assert run_layers.keywords["input_shapes"] is None
    assert "multiply-add peak: 100.0 GFLOP/s" in capsys.readouterr().out


def test_records_are_those_of_compile(run_layers: Layers, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("")
    words = [
        "bench",
        "a.onnx",
        "--layers",
        "--no-winograd",
        "--no-shipped-records",
        "--tuning-records",
        str(log),
    ]
    assert main(words) == 0
    assert not run_layers.kernels.winograd
    assert run_layers.kernels.records.database.best_of(run_layers.kernels.processor) == []


def test_a_layer_of_ours_without_a_time_has_failed(run_layers: Layers) -> None:
    missing = dict.fromkeys(("ours_us", "gflops", "peak_share", "onednn_us", "ratio", "relative_error"))
    run_layers.rows = [
        {
            **missing,
            "layer": "l",
            "uses": 1,
            "algorithm": "direct",
            "knobs": {"tile_pixels": 1, "tile_channels": 1, "order": "pixels"},
            "source": "default",
            "ours_least_us": None,
            "onednn_least_us": None,
            "agrees": None,
            "failures": ["relay-layout: no"],
        }
    ]
    assert main(["bench", "a.onnx", "--layers"]) == 1


def test_what_was_measured_until_an_interrupt_is_printed(
    run_layers: Layers, capsys: pytest.CaptureFixture[str]
) -> None:
    run_layers.is_interrupted = True
    assert main(["bench", "a.onnx", "--layers"]) == 130
    assert "multiply-add peak: 100.0 GFLOP/s" in capsys.readouterr().out


def test_peers_are_no_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "a.onnx", "--layers", "--peers", "torch"]) == 2
    captured = capsys.readouterr()
    message = "relay-layout: error: --layers compares with oneDNN alone; leave out --peers\n"
    assert (captured.out, captured.err) == ("", message)


def test_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "absent.onnx", "--layers"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("relay-layout: error: model 'absent.onnx': no such file; ")
