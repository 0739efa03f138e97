"""The demonstration, without what takes long."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_layout.cli import demo
from relay_layout.cli.npz import read_arrays, write_arrays
from relay_layout.models import build

RUNTIME = {"version": "1.0", "median_ms": 2.0, "min_ms": 1.0, "agrees": True}


class Peer:
    """Stands for ONNX Runtime: returns the sums over the image."""

    def __init__(self, hint: str | None) -> None:
        self.hint = hint

    def missing(self) -> str | None:
        return self.hint

    def prepare(self, model: Path, threads: int) -> Any:
        assert model.is_file()
        return lambda inputs: lambda: [inputs["input"].sum((2, 3))]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, work: Any) -> dict[str, Any]:
    """What the demonstration is made of; a test may change it."""
    found: dict[str, Any] = {"error": 0.0, "hint": None, "failures": {}}
    small = build("squeezenet1_1", image_size=32, width=0.1)

    def run_in_new_process(files: Any, threads: int) -> None:
        assert files.artifact.is_file()
        total = read_arrays(str(files.inputs))["input"].sum((2, 3))
        write_arrays(str(files.outputs), {"output": total + found["error"] * np.abs(total).max()})

    def run_bench(models: Any, peers: Any, **keywords: Any) -> Any:
        found["peers"], found["threads"] = peers, keywords["threads"]
        names = [] if found["failures"] else ["relay-layout", *peers]
        model = {"peers": dict.fromkeys(names, RUNTIME), "failures": found["failures"]}
        return {"models": [model], "machine": {"cpu": "a processor"}}

    monkeypatch.setattr("relay_layout.models.build", lambda name: small)
    monkeypatch.setattr("relay_layout.bench.run_bench", run_bench)
    monkeypatch.setattr("relay_layout.bench.peers.find_peer", lambda name: Peer(found["hint"]))
    monkeypatch.setattr(demo, "_run_in_new_process", run_in_new_process)
    return found


def test_prints_latencies_and_agreement(parts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    parts["error"] = 2.5e-6
    assert demo.main(["--model", "squeezenet1_1", "--threads", "2"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line != "a library prints"]
    assert lines[:-1] == [
        "squeezenet1_1, float32 [1, 3, 32, 32], threads: 2, a processor",
        "",
        "latency           median ms  least ms",
        "relay-layout 1.0  2.00       1.00",
        "onnxruntime 1.0   2.00       1.00",
        "",
        "layout transforms left  1",
        "agreement               agrees with onnxruntime, largest relative difference 2.5e-06",
        "compiled in             12.3 s",
    ]
    assert lines[-1].startswith("all of this             ")


def test_outputs_that_differ_fail(parts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    parts["error"] = 0.01
    assert demo.main(["--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["agrees"] is False
    assert "DIFFERS from onnxruntime, largest relative difference 1.0e-02" in captured.err


def test_without_onnx_runtime(parts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    parts["hint"] = "onnxruntime: needs onnxruntime"
    assert demo.main([]) == 0
    assert parts["peers"] == []
    assert "agreement               not checked: onnxruntime is not installed" in capsys.readouterr().out


def test_a_failure_of_ours_is_an_error(parts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    parts["failures"] = {"relay-layout": "relay-layout: it broke"}
    assert demo.main([]) == 2
    assert capsys.readouterr().err.endswith("relay-layout: error: relay-layout: it broke\n")


def test_a_failing_process_tells_why(tmp_path: Path) -> None:
    with pytest.raises(
        demo.RelayLayoutError, match=r"^the run in a new process failed: relay-layout: error: "
    ):
        demo._run_in_new_process(demo._files_in(tmp_path), 1)
