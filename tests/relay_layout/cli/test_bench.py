"""The verb ``bench``."""

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import relay_layout.bench
from relay_layout.bench import history
from relay_layout.cli.main import main
from relay_layout.environment import host
from relay_layout.models import Network


def result(peers: dict[str, Any]) -> dict[str, Any]:
    model = {"model": "m", "threads": 2, "peers": peers, "failures": {}, "ratios": {}}
    machine = {"cpu": "a processor", "cores": 2, "system": "a system", "python": "3.11"}
    return {"models": [model], "geometric_mean": {}, "machine": machine}


def peer(agrees: bool | None = True) -> dict[str, Any]:
    return {
        "median_ms": 2.0,
        "min_ms": 1.0,
        "iqr_ms": 0.1,
        "repeats": 10,
        "version": "1",
        "prepare_seconds": 1.0,
        "relative_error": 1e-6,
        "agrees": agrees,
    }


class Bench:
    """Stands for run_bench."""

    def __init__(self) -> None:
        self.models: list[tuple[str, Path]] = []
        self.peers: Any = None
        self.keywords: dict[str, Any] = {}
        self.artifacts: list[bytes] = []
        self.exported: list[Sequence[Any]] = []
        self.result = result({"relay-layout": peer()})
        self.killed = False

    def __call__(self, models: Any, peers: Any, **keywords: Any) -> dict[str, Any]:
        self.models, self.peers, self.keywords = models, peers, keywords
        for _, path in models:
            assert path.suffix == ".onnx"
            self.artifacts.append(keywords["ours"](path, 2).read_bytes())
        if keywords["measured"] is not None:
            keywords["measured"](self.result)
            if self.killed:
                raise KeyboardInterrupt
        return self.result


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, work: Any) -> Bench:
    fake = Bench()

    def export(network: Network, path: Path) -> None:
        fake.exported.append(network.inputs[0].shape)
        path.write_text("a network")

    monkeypatch.setattr(relay_layout.bench, "run_bench", fake)
    monkeypatch.setattr("relay_layout.models.export_onnx", export)
    return fake


def test_files_and_built_in_networks(bench: Bench, work: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "a.onnx", "resnet18"]) == 0
    assert bench.models[0] == ("a.onnx", Path("a.onnx"))
    assert bench.models[1][0] == "resnet18"
    assert bench.peers is None
    assert bench.keywords["threads"] == host.cpu_count()
    assert bench.keywords["seconds"] == 5.0
    assert bench.keywords["input_shapes"] is None
    assert bench.keywords["require_peers"] is False
    assert bench.artifacts == [b"x" * 1234] * 2
    assert [arguments[0] for _, arguments, _ in work.calls] == ["a.onnx", str(bench.models[1][1])]
    assert not bench.models[1][1].exists()
    assert "relay-layout" in capsys.readouterr().out


def test_a_built_in_network_takes_another_shape(bench: Bench) -> None:
    assert main(["bench", "squeezenet1_1", "--input-shape", "input:8,3,64,96"]) == 0
    assert bench.exported == [(8, 3, 64, 96)]
    assert bench.keywords["input_shapes"] == {"input": (8, 3, 64, 96)}


def test_options(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bench a.onnx --peers onnxruntime,tvm --threads 1 --seconds 0.5 --input-shape x:1,3 --json"
    assert main(words.split()) == 0
    assert bench.peers == ["onnxruntime", "tvm"]
    assert bench.keywords["require_peers"] is True
    assert (bench.keywords["threads"], bench.keywords["seconds"]) == (1, 0.5)
    assert bench.keywords["input_shapes"] == {"x": (1, 3)}
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    assert json.loads(line) == bench.result
    assert "a processor" in captured.err


def test_records_are_those_of_compile(bench: Bench, work: Any) -> None:
    words = "bench a.onnx --tuning-records x.jsonl y.jsonl --no-shipped-records --no-winograd"
    assert main(words.split()) == 0
    (call,) = work.calls
    records = {name: call[2][name] for name in ("tuning_records", "shipped_records", "winograd")}
    assert records == {"tuning_records": ["x.jsonl", "y.jsonl"], "shipped_records": False, "winograd": False}


def test_no_peers(bench: Bench) -> None:
    assert main(["bench", "a.onnx", "--peers", "none"]) == 0
    assert bench.peers == []


@pytest.mark.parametrize("peers", [{}, {"relay-layout": peer(agrees=False)}])
def test_a_benchmark_whose_subject_fails_has_failed(bench: Bench, peers: dict[str, Any]) -> None:
    bench.result = result(peers)
    assert main(["bench", "a.onnx"]) == 1


def test_outputs_that_were_not_compared_are_no_failure(bench: Bench) -> None:
    bench.result = result({"relay-layout": peer(agrees=None)})
    assert main(["bench", "a.onnx"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "resnet18 model.pt2",
            "bench takes .onnx files and built-in networks "
            "(convnext_tiny, densenet121, efficientnet_b0, inception_v3, mobilenet_v2, mobilenet_v3_large, "
            "resnet18, resnet50, squeezenet1_1, unet, vgg16, yolo), not 'model.pt2'",
        ),
        (
            "a.onnx --peers onnxruntime,",
            "bench: argument --peers: expected names with commas between them, got 'onnxruntime,'; "
            "see relay-layout bench --help",
        ),
        (
            "a.onnx --seconds nan",
            "bench: argument --seconds: expected a number of seconds above 0, at most 3600, got 'nan'; "
            "see relay-layout bench --help",
        ),
    ],
)
def test_bad_input(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words.split()]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"relay-layout: error: {message}\n")


def test_an_unknown_peer_and_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "a.onnx", "--peers", "nobody"]) == 2
    assert capsys.readouterr().err.startswith("relay-layout: error: unknown peer 'nobody': ")
    assert main(["bench", "a.onnx", "--peers", "none"]) == 2
    assert capsys.readouterr().err == "relay-layout: error: a.onnx: no such file\n"


def test_saved_and_compared(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_layout.bench.history.describe_machine", lambda: bench.result["machine"])
    assert main(["bench", "m.onnx", "--threads", "2", "--save", "before.json"]) == 0
    bench.result = result({"relay-layout": {**peer(), "median_ms": 3.0}})
    capsys.readouterr()
    assert main(["bench", "m.onnx", "--threads", "2", "--against", "before.json", "--json"]) == 1
    captured = capsys.readouterr()
    (found,) = json.loads(captured.out)["against"]
    assert (found["before_ms"], found["after_ms"], found["verdict"]) == (2.0, 3.0, "slower")
    assert "slower" in captured.err


def test_what_was_measured_before_the_end_is_saved(bench: Bench, tmp_path: Path) -> None:
    bench.killed = True
    path = tmp_path / "before.json"
    assert main(["bench", "m.onnx", "--save", str(path)]) != 0
    assert json.loads(path.read_text())["result"] == bench.result


def test_layers_are_of_known_sizes(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "m.onnx", "--layers", "--any-size"]) == 2
    message = "relay-layout: error: --any-size is for whole models; leave out --layers\n"
    assert capsys.readouterr().err == message


def test_what_cannot_be_saved_is_printed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.json")

    monkeypatch.setattr(history, "save", full)
    assert main(["bench", "m.onnx", "--save", str(tmp_path / "a.json")]) == 2
    captured = capsys.readouterr()
    assert "relay-layout: error: --save: a.json: No space left on device" in captured.err.splitlines()
    assert "2.00" in captured.out


def test_layers_are_not_saved(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "m.onnx", "--layers", "--save", "layers.json"]) == 2
    message = "relay-layout: error: --save and --against are for whole models; leave out --layers\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--save", "a.json"], "--save and --against are for a machine by itself; leave out --neighbours"),
        (["--layers"], "--neighbours is for whole models; leave out --layers"),
    ],
)
def test_neighbours_are_for_whole_models(
    bench: Bench, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["bench", "m.onnx", "--neighbours", "2", *options]) == 2
    assert capsys.readouterr().err == f"relay-layout: error: {message}\n"


def test_help_names_the_models_that_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    text = capsys.readouterr().out
    assert "an .onnx file, or a built-in network" in text and ".tflite" not in text
