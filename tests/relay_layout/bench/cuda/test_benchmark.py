"""The benchmark's arguments, and what it says where it cannot measure."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_layout.artifact import TensorSpec
from relay_layout.bench.cuda import measure as cuda_measure
from relay_layout.bench.cuda.bars import Seen, bars
from relay_layout.bench.cuda.prepare import Case
from scripts import benchmark_cuda
from scripts.benchmark_cuda import Results, main
from topi_ext.cuda.workload import GemmConvolution

WORK = GemmConvolution(32, 4, 4, 8, 8, (1, 1), (1, 1), (0,) * 4, (1, 1), 1, "float16")


@pytest.mark.parametrize("batch", ["0", "many"])
def test_batches_are_whole_numbers(batch: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["resnet50", "--batches", batch])
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"benchmark_cuda: error: argument --batches: expected a whole number of at least 1, got '{batch}'"
    )


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as left:
        main(["resnet50", "--batches", "1", "2"])
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "benchmark_cuda: error: torch finds no GPU on this machine; run it on one with an NVIDIA GPU"
    )


def test_without_a_compiler_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(benchmark_cuda, "find_compiler", lambda: None)
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "benchmark_cuda: error: neither nvcc nor NVRTC is installed; install relay-layout[nvrtc]"
    )


class MadeUp:
    """Stands in for a GPU, its sessions and what is compiled for it: ``wrong`` are off, ``broken`` raise."""

    wrong: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    outputs = np.arange(1.0, 11.0, dtype="float32").reshape(1, 10)

    def __init__(self, folder: Path) -> None:
        self.closed = False
        self.cases: list[Case] = []
        self.references: list[tuple[str, int]] = []

    def start(self, cases: Sequence[Case], references: Sequence[tuple[str, int]]) -> None:
        self.cases += cases
        self.references += references

    def start_layers(self, workloads: Sequence[GemmConvolution], case: Case) -> None:
        assert case.batch == 32

    def wait(self, seconds: float, tell: Callable[[str], None]) -> None:
        tell("prepared")

    def artifact(self, case: Case, seconds: float) -> str:
        assert case in self.cases
        if case.model in self.broken:
            raise RuntimeError("nvcc for sm_90: error: no")
        return f"{case.model} {case.precision}"

    def reference(self, model: str, batch: int, seconds: float) -> list[np.ndarray]:
        assert (model, batch) in self.references
        return [self.outputs, self.outputs + 1]

    def layer(self, workload: GemmConvolution, case: Case, seconds: float) -> dict[str, bytes]:
        return {}

    def close(self) -> None:
        self.closed = True


class MadeUpProcess:
    """Runs in this process; what ``crashing`` or ``hanging`` names ends as a process would."""

    crashing: tuple[str, ...] = ()
    hanging: tuple[str, ...] = ()

    def __init__(self, prepare: Any, *, tells: bool) -> None:
        self.closed = False

    def ask(self, function: Callable[..., Any], *arguments: Any, limit: float) -> Any:
        assert not self.closed
        assert 0 < limit <= benchmark_cuda.LINE_SECONDS
        if any(name in str(arguments) for name in self.crashing):
            raise ChildProcessError("Subprocess terminated")
        if any(name in str(arguments) for name in self.hanging):
            raise TimeoutError
        return function(*arguments)

    def close(self) -> None:
        self.closed = True


class MadeUpDevice:
    exist = True


class MadeUpSession:
    inputs = (TensorSpec("input", (1, 3, 8, 8), "float32"),)

    def __init__(self, name: str) -> None:
        self.factor = 1.5 if name in MadeUp.wrong else 1 + 1e-5

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert inputs["input"].shape == (1, 3, 8, 8)
        return {"first": MadeUp.outputs, "second": (MadeUp.outputs + 1) * self.factor}

    def feed(self, inputs: dict[str, np.ndarray]) -> None:
        pass

    def launch(self) -> None:
        pass


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A GPU on which everything of ours takes 1 ms, and everything of torch 1.5."""
    torch = pytest.importorskip("torch")
    for name, value in (
        ("is_available", True),
        ("get_device_capability", (9, 0)),
        ("get_device_name", "made up"),
    ):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)

    def measured(torch: Any, runners: list[Any]) -> list[list[float]]:
        counts = [len(runner) if isinstance(runner, list) else 1 for runner in runners]
        return [[count * (1.0 + 0.5 * place)] for place, count in enumerate(counts)]

    for name, stand_in in (
        ("find_compiler", lambda: Path("nvcc")),
        ("Prepared", MadeUp),
        ("Process", MadeUpProcess),
        ("layers", lambda name, batch, target: {WORK: 2}),
    ):
        monkeypatch.setattr(benchmark_cuda, name, stand_in)
    for name, stand_in in (
        ("our_layer", lambda *arguments: None),
        ("cudnn_layer", lambda *arguments: None),
        ("peer_calls", lambda *arguments: {"torch graph": lambda: None}),
        ("measured", measured),
        ("host_us", lambda torch, runner: 7.0),
        ("captured", lambda torch, call, calls: [call] * calls),
        ("LAYER_CALLS", 4),
    ):
        monkeypatch.setattr(cuda_measure, name, stand_in)
    monkeypatch.setattr(cuda_measure.relay_layout, "load", MadeUpSession)
    monkeypatch.setattr(benchmark_cuda.tvm, "cuda", lambda number: MadeUpDevice)
    for kind, name in (
        (MadeUp, "wrong"),
        (MadeUp, "broken"),
        (MadeUpProcess, "crashing"),
        (MadeUpProcess, "hanging"),
    ):
        monkeypatch.setattr(kind, name, ())
    return monkeypatch


def lines_of(tmp_path: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    status = main([*arguments, "--results", str(tmp_path / "r.jsonl"), "--records", str(tmp_path / "none")])
    return status, [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]


def test_the_whole_command(
    gpu: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = lines_of(tmp_path)
    told = capsys.readouterr().out.splitlines()
    assert status == 0
    assert len([line for line in lines if "outputs" in line]) == 3 * 12
    assert len([line for line in lines if "network" in line and "milliseconds" in line]) == 3 * 2
    assert len([line for line in lines if "workload" in line]) == 3
    verdicts = told[told.index("asked: seen; verdict") + 1 :]
    assert verdicts[0] == (
        "outputs of 12 networks in fp16, within 0.02 of the largest element: 1.0e-05 at most (resnet50); met"
    )
    assert verdicts[3:] == [
        "resnet50 fp16 batch 1, at most 0.9 of torch's latency: 0.67; met",
        "resnet50 fp16 batch 32, at most 0.9 of torch's latency: 0.67; met",
        "layers at batch 32, at least 0.9 of cuDNN's throughput (geometric mean): 1.50 over 3 layers; met",
        "mobilenet_v2 fp16 batch 1, at least 1.3 times faster than torch: 1.50; met",
        "efficientnet_b0 fp16 batch 1, at least 1.3 times faster than torch: 1.50; met",
        "microseconds of a call on the host, measured: 7 at most; met",
    ]


def settings(torch: Any) -> tuple[bool, bool]:
    """Whether cuDNN tries its kernels, and multiplies float32 in TF32."""
    return torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32


def measure(kind: str, precision: str) -> None:
    """A network or a layer, on the made-up GPU."""
    case = Case("resnet50", 1, precision, "cuda-sm_90", ())
    if kind == "network":
        cuda_measure.network_times(case, Path("resnet50"), [MadeUp.outputs, MadeUp.outputs + 1], [])
    else:
        dtype = {"tf32": "tf32", "fp32": "float32"}[precision]
        cuda_measure.layer_times(replace(WORK, dtype=dtype), case, {})


@pytest.mark.parametrize("precision", ["tf32", "fp32"])
@pytest.mark.parametrize("kind", ["network", "layer"])
def test_torch_multiplies_in_the_precision_that_is_measured(
    kind: str, precision: str, gpu: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, bool]] = []

    def measured(torch: Any, runners: list[Any]) -> list[list[float]]:
        seen.append(settings(torch))
        return [[1.0] for _ in runners]

    gpu.setattr(cuda_measure, "measured", measured)
    measure(kind, precision)
    assert seen == [(True, precision == "tf32")]


@pytest.mark.parametrize("kind", ["network", "layer"])
def test_measuring_leaves_the_settings_of_torch(kind: str, gpu: pytest.MonkeyPatch) -> None:
    import torch

    gpu.setattr(torch.backends.cudnn, "benchmark", False)
    gpu.setattr(torch.backends.cudnn, "allow_tf32", True)
    measure(kind, "fp32")
    assert settings(torch) == (False, True)


def test_wrong_outputs_and_failures_are_told_apart(
    gpu: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu.setattr(MadeUp, "wrong", ("yolo tf32",))
    gpu.setattr(MadeUp, "broken", ("unet",))
    status, _ = lines_of(tmp_path, "--only", "outputs", "--outputs", "yolo", "unet")
    told = capsys.readouterr().out.splitlines()
    assert status == 1
    assert "outputs of unet batch 1 fp16: failed: nvcc for sm_90: error: no" in told
    verdicts = told[told.index("asked: seen; verdict") + 1 :]
    assert [verdict.rpartition("; ")[2] for verdict in verdicts] == ["not measured", "not met"] + [
        "not measured"
    ] * 7
    assert verdicts[1].endswith("5.0e-01 at most (yolo), wrong: yolo, missing: unet; not met")


def test_a_kernel_that_crashes_or_hangs_costs_its_line_alone(
    gpu: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu.setattr(MadeUpProcess, "crashing", ("mobilenet_v2",))
    gpu.setattr(MadeUpProcess, "hanging", ("efficientnet_b0",))
    status, lines = lines_of(tmp_path, "--only", "networks", "--batches", "1")
    told = capsys.readouterr().out.splitlines()
    assert status == 1
    assert "mobilenet_v2 batch 1: failed: the process that uses the GPU has crashed" in told
    assert "efficientnet_b0 batch 1: failed: takes longer than 60 s" in told
    assert [line["network"] for line in lines if "milliseconds" in line] == ["resnet50"]


def test_without_tvms_half_for_cuda_it_says_so(
    gpu: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu.setattr(MadeUpDevice, "exist", False)
    with pytest.raises(SystemExit) as left:
        lines_of(tmp_path)
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "benchmark_cuda: error: TVM finds no GPU; put the folder of libcudart.so.13 into LD_LIBRARY_PATH"
    )


def test_what_is_past_the_limit_is_left_out(
    gpu: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu.setattr(Results, "seconds_left", 0.0)
    status, lines = lines_of(tmp_path, "--only", "networks", "--batches", "1")
    assert status == 0
    assert [line["error"] for line in lines if "error" in line] == ["time limit"] * 3
    assert "resnet50 batch 1: left out, no time is left; see --time-limit" in capsys.readouterr().out


def test_what_is_not_compiled_by_the_limit_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results(tmp_path / "results.jsonl", {}, 60)

    def waits() -> None:
        results._end = 0.0
        Future().result(0)

    results.in_time("a case", waits)
    assert not results.failed
    assert capsys.readouterr().out == "a case: left out, no time is left; see --time-limit\n"
    results.begin()
    results.in_time("another", lambda: Future().result(0))
    assert results.failed
    assert capsys.readouterr().out == "another: failed: TimeoutError\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["resnet51"], "unknown built-in network 'resnet51'; available: "),
        (["--outputs", "yolo", "resnet51"], "unknown built-in network 'resnet51'; available: "),
        (["--target", "cuda-sm_91"], "target 'cuda-sm_91' is not known; use one of "),
        (["--target", "x86-64"], "target 'x86-64' is none of a GPU; use one such as cuda-sm_90"),
        (["--target", "cuda-sm_75", "--precision", "tf32"], "precision 'tf32' needs cuda-sm_80 or later"),
        (["--results", "{folder}"], "cannot write {folder}: Is a directory"),
    ],
)
def test_what_cannot_be_measured_is_one_line_before_anything_begins(
    arguments: list[str],
    problem: str,
    gpu: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--results", str(tmp_path / "r.jsonl"), *(word.format(folder=tmp_path) for word in arguments)]
    with pytest.raises(SystemExit) as left:
        main(given)
    assert left.value.code == 2
    told = capsys.readouterr()
    expected = f"benchmark_cuda: error: {problem.format(folder=tmp_path)}"
    assert told.err.splitlines()[-1].startswith(expected)
    assert told.out == ""


def test_a_difference_that_is_not_a_number_meets_nothing() -> None:
    seen = Seen(differences={"fp16": {"one": 1e-3, "two": float("nan")}})
    first = bars(seen, ["one", "two"])[0]
    assert (first.met, first.seen) == (False, "nan at most (two), wrong: two")


def test_what_fails_costs_its_line_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = Results(tmp_path / "results.jsonl", {"gpu": "made up"}, 60)

    def fails(value: int) -> None:
        raise RuntimeError(f"out of memory\nat {value}")

    results.guarded("first", lambda value: results.add(value=value), 1)
    assert not results.failed
    results.guarded("second", fails, 2)
    results.guarded("third", lambda value: results.add(value=value), 3)
    assert results.failed
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line.get("value") for line in lines] == [1, None, 3]
    assert lines[1] == {"gpu": "made up", "name": "second", "error": "out of memory\nat 2"}
    assert capsys.readouterr().out == "second: failed: at 2\n"
