"""Tuning for a GPU as far as it goes without one: with times that a model makes up."""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tvm

import relay_layout
from relay_layout import models
from relay_layout.cli.main import main
from relay_layout.environment import host
from relay_layout.targets import CudaTarget, resolve_target
from relay_layout.tuning.job import Listener, Tuning, TuningJob
from relay_layout.tuning.tasks import model_tasks
from relay_layout.tuning.transforms import transform_function
from scripts import benchmark_cuda
from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.gemm_space import gemm_us
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.tune.measuring import gpu_workers
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.log import append, load
from topi_ext.tune.records.record import TransformRecord, TuningRecord
from topi_ext.tune.task import Task
from topi_ext.workloads.transform import TransformWorkload

TARGET = "cuda-sm_90"
SLOW_ROWS = 64
LAYOUTS = {"desired_layout": "NHWC"}


def small_network() -> tvm.IRModule:
    """Two convolutions of the same extents, and one with a stride."""
    builder = models.NetworkBuilder("small")
    found = builder.input("input", (1, 32, 10, 10))
    for name in ("first", "second"):
        found = builder.relu(builder.convolution(found, name, 32, 3, padding=1, bias=True), f"{name}_relu")
    found = builder.convolution(found, "third", 48, 3, strides=2, padding=1, bias=True)
    return models.to_relax(builder.build({"output": found}))


def network_in_nhwc() -> tvm.IRModule:
    return relay_layout.convert(small_network(), target=target_of(), **LAYOUTS).module


def target_of(records: Sequence[Path] = ()) -> CudaTarget:
    found = resolve_target(TARGET, precision="fp16", tuning_records=records, shipped_records=False)
    assert isinstance(found, CudaTarget)
    return found


def tasks_of(target: CudaTarget) -> list[Task]:
    return model_tasks([small_network()], target, LAYOUTS).tasks


class MadeUp:
    """Kernels of 64 rows take four times what is estimated, all others as long."""

    cpu = "made up"
    builds_ahead = False

    def __init__(self) -> None:
        self.runs: list[tuple[GemmConvolution, GemmKnobs]] = []
        self.transforms = 0
        self.then = lambda runs: None

    def measure(
        self, workload: GemmConvolution, knobs: Sequence[GemmKnobs], rounds: int = 1
    ) -> Iterator[Measurement]:
        for one in knobs:
            if rounds == 1:
                self.runs.append((workload, one))
            self.then(len(self.runs))
            slower = 4.0 if one.block_m == SLOW_ROWS else 1.0
            seconds = slower * gemm_us(workload, one, MULTIPROCESSORS["sm_90"]) / 1e6
            yield Measurement((seconds,) * 3 * rounds)

    def measure_functions(self, functions: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
        for _ in functions:
            self.transforms += 1
            yield Measurement((2e-6,) * 3 * rounds)

    def result_error(self, workload: GemmConvolution, knobs: GemmKnobs) -> str:
        return ""

    def close(self) -> None:
        pass


def job(log: Path, **changes: Any) -> TuningJob:
    fields: dict[str, Any] = {
        "models": [small_network()],
        "log": log,
        "target": TARGET,
        "layouts": LAYOUTS,
        "records": {"shipped_records": False},
        "options": TuneOptions(trials=24, patience=1000, batch=8),
        "precision": "fp16",
    }
    return TuningJob(**(fields | changes))


def tuned(log: Path, measurer: MadeUp, **changes: Any) -> dict[str, Any]:
    listener, wanted = Listener(), job(log, **changes)
    return Tuning.prepare(wanted, wanted.resolved_target(), listener).run(measurer, listener)


def test_the_products_of_a_network_are_tasks() -> None:
    assert [(task.name, task.weight) for task in tasks_of(target_of())] == [
        ("conv2d 32x10x10 -> 32 3x3 NHWC float16", 2),
        ("conv2d 32x10x10 -> 48 3x3 stride 2 NHWC float16", 1),
    ]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What tuning the small network left."""
    path = tmp_path_factory.mktemp("cuda") / "records.jsonl"
    measurer = MadeUp()
    report = tuned(path, measurer)
    assert report["ended"] == "done"
    assert [task["trials"] for task in report["tasks"]] == [24, 24]
    assert len(measurer.runs) == 48
    assert report["gain"] > 2.0
    return path


def test_records_are_of_the_workload_and_the_architecture(log: Path) -> None:
    records, problems = load([log])
    assert problems == []
    kernels = [record for record in records if isinstance(record, TuningRecord)]
    assert {(record.processor, record.threads, record.cpu) for record in kernels} == {("sm_90", 1, "made up")}
    assert {record.workload for record in kernels} == {task.workload for task in tasks_of(target_of())}
    moved = [record for record in records if isinstance(record, TransformRecord)]
    assert {record.processor for record in moved} <= {"sm_90"}


def test_compilation_takes_what_is_on_record(log: Path) -> None:
    target, plain = target_of([log]), target_of()
    for task in tasks_of(target):
        choice = target.kernels.choose(task.workload)
        default = plain.kernels.choose(task.workload)
        assert (choice.source, default.source) == ("tuned", "default")
        assert choice.knobs.block_m != SLOW_ROWS == default.knobs.block_m


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_an_artifact_and_its_report_say_tuned(log: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    compiled = relay_layout.compile(small_network(), target=target_of([log]), report=report, **LAYOUTS)
    (build,) = compiled.manifest.builds
    assert build.report["kernels"]["tuned"] == 2
    (target,) = json.loads(report.read_text())["targets"]
    products = [call for call in target["calls"] if call["operator"] == "gemm_conv2d"]
    assert {(call["source"], call["algorithm"]) for call in products} == {("tuned", "implicit GEMM")}
    assert SLOW_ROWS not in {call["knobs"]["block_m"] for call in products}
    assert sum(call["gigaflop"] for call in products) == pytest.approx(
        2e-9 * (2 * 100 * 32 + 25 * 48) * 32 * 9
    )


def test_what_does_not_fit_any_more_is_not_taken(tmp_path: Path) -> None:
    (task, _) = tasks_of(target_of())
    knobs = target_of().kernels.choose(task.workload).knobs.to_dict() | {"stages": 99}
    log = tmp_path / "log.jsonl"
    append(log, TuningRecord(task.workload, "sm_90", 1, knobs, (1e-6,) * 3))
    assert target_of([log]).kernels.choose(task.workload).source == "default"


def test_a_tuner_that_was_killed_goes_on(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(runs: int) -> None:
        if runs == 20:
            raise Killed

    first, second = MadeUp(), MadeUp()
    first.then = kill
    with pytest.raises(Killed):
        tuned(tmp_path / "log.jsonl", first)
    report = tuned(tmp_path / "log.jsonl", second)
    assert [task["trials"] for task in report["tasks"]] == [24, 24]
    # Of the one at which it was killed there is no record.
    assert len(first.runs) - 1 + len(second.runs) == 48
    assert not set(first.runs[:-1]) & set(second.runs)


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_layout_transforms_are_built_to_be_measured(tmp_path: Path) -> None:
    moved = TransformWorkload("NCHW", (1, 8, 4, 6), "NCHW", "NHWC", "float32")
    found = gpu_workers.build(str(tmp_path), ("cc",), "sm_90", transform_function(target_of(), moved))
    assert found.arguments == [((1, 8, 4, 6), "float32"), ((1, 4, 6, 8), "float32")]
    assert (found.calls, found.device) == ([("main", (0, 1))], "cuda")


def test_without_a_gpu_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host, "gpu_architecture", lambda: "")
    words = ["tune", "resnet18", "--input-shape", "input:1,3,32,32", "-o", str(tmp_path / "log.jsonl")]
    assert main([*words, "--target", TARGET, "--precision", "fp16"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "relay-layout: error: target cuda-sm_90: tuning runs kernels, and no GPU is found here; "
        "tune on a machine with one of sm_90, or name such machines with --rpc-tracker"
    )


def test_another_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from relay_layout.errors import TargetError
    from relay_layout.tuning.measurers import local_measurer

    monkeypatch.setattr(host, "gpu_architecture", lambda: "sm_80")
    with pytest.raises(TargetError) as raised:
        local_measurer(target_of())
    assert str(raised.value) == (
        "target cuda-sm_90: tuning runs kernels, and this machine's GPU is sm_80; give --target cuda-sm_80"
    )


def test_the_benchmark_tunes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark_cuda, "build", lambda name, batch: name)
    monkeypatch.setattr(benchmark_cuda, "to_relax", lambda network: network_in_nhwc())
    options = Namespace(
        models=["small"], batches=[1], precision="fp16", records=tmp_path / "log.jsonl", tune_seconds=5
    )
    benchmark_cuda.tune(TARGET, options, MadeUp())
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "ended"
    assert target_of([options.records]).kernels.choose(tasks_of(target_of())[0].workload).source == "tuned"
