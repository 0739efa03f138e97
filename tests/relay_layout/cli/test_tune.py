"""The verb ``tune``, with times that are made up."""

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from relay_layout.cli import tune
from relay_layout.cli.main import main
from relay_layout.targets import resolve_target
from relay_layout.tuning.tasks import ModelTasks, as_tasks
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.records.log import append, load
from topi_ext.tune.records.record import TuningRecord
from topi_ext.tune.tuner import TuneProgress
from topi_ext.workloads.convolution import ConvolutionWorkload

CONVOLUTION = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 16, 3, 3), float32]) {
  nn.conv2d(%x, %w, padding=[1, 1, 1, 1])
}
"""

WORKLOAD = ConvolutionWorkload(
    batch=1,
    in_channels=32,
    out_channels=32,
    in_height=14,
    in_width=14,
    kernel=(3, 3),
    strides=(1, 1),
    padding=(1, 1, 1, 1),
    dilation=(1, 1),
    groups=1,
    data_layout="NCHW16c",
    kernel_layout="OIHW16i16o",
    out_layout="NCHW16c",
    dtype="float32",
    out_dtype="float32",
)

COMMAND = [
    "tune",
    "model.onnx",
    "-o",
    "log.jsonl",
    "--target",
    "x86-64-v4",
    "--threads",
    "2",
    "--trials",
    "6",
]


class MadeUp:
    cpu = "test machine"
    builds_ahead = False

    def __init__(self) -> None:
        self.runs = 0
        self.transforms = 0
        self.closed = False
        self.then: Callable[[int], None] = lambda runs: None

    def measure(
        self, workload: ConvolutionWorkload, knobs: Sequence[Any], rounds: int = 1
    ) -> Iterator[Measurement]:
        for one in knobs:
            self.runs += 1
            self.then(self.runs)
            yield Measurement((1e-3 / one.to_dict()["tile_pixels"],) * 3 * rounds)

    def measure_functions(self, functions: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
        for function in functions:
            self.transforms += 1
            yield Measurement((1e-9 * math.prod(map(int, function.params[0].shape)),) * 3 * rounds)

    def result_error(self, workload: ConvolutionWorkload, knobs: Any) -> str:
        return ""

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def measurer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeUp:
    """In an empty folder, with one task for every model."""
    measurer = MadeUp()
    monkeypatch.setattr(tune, "_measurer", lambda target, remote, **_: measurer)
    tasks = ModelTasks(as_tasks({WORKLOAD: 3}), ["model.onnx: odd has symbolic extents and is not tuned"])
    monkeypatch.setattr("relay_layout.tuning.tasks.model_tasks", lambda models, target, options: tasks)
    monkeypatch.chdir(tmp_path)
    return measurer


def test_tunes_and_reports(measurer: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    (task,) = report["tasks"]
    assert (task["name"], task["weight"], task["trials"]) == ("conv2d 32x14x14 -> 32 3x3 NCHW16c", 3, 6)
    assert task["workload"] == json.loads(WORKLOAD.to_json())
    assert task["best_us"] == pytest.approx(1e3 / task["knobs"]["tile_pixels"], abs=0.01)
    assert (report["log"], report["ended"], report["failed"]) == ("log.jsonl", "done", 0)
    assert report["gain"] == pytest.approx(task["default_us"] / task["best_us"], abs=1e-3)
    records, problems = load([Path("log.jsonl")])
    assert not problems
    assert len(records) == report["measured"]
    assert records[0].versions.keys() == {"relay_layout", "tvm"}
    assert (records[0].processor, records[0].threads) == ("x86-64 AVX-512", 2)
    assert measurer.closed


def test_text_for_people(measurer: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMAND) == 0
    captured = capsys.readouterr()
    first, second, *totals = captured.out.splitlines()
    assert first.split() == ["task", "uses", "trials", "default", "us", "best", "us", "GFLOP/s"]
    assert second.startswith("conv2d 32x14x14 -> 32 3x3 NCHW16c  3     6 of ")
    assert [line.split()[0] for line in totals] == ["measured", "gain", "log", "ended"]
    notes = captured.err.splitlines()
    assert notes[0] == "model.onnx: odd has symbolic extents and is not tuned"
    assert notes[1].startswith(
        "task 1 of 1 (conv2d 32x14x14 -> 32 3x3 NCHW16c), 1 trials, at most 5 left, best "
    )


def test_no_winograd_kernels_where_none_are_wanted(measurer: MadeUp) -> None:
    words = ["--no-winograd", "--strategy", "exhaustive", "--trials", "10000", "--patience", "10000"]
    assert main([*COMMAND, *words]) == 0
    records, _ = load([Path("log.jsonl")])
    assert {record.algorithm for record in records} == {"direct"}


def test_the_log_counts(measurer: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMAND) == 0
    first = measurer.runs
    assert main([*COMMAND, "--json"]) == 0
    assert measurer.runs == first
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["measured"], report["tasks"][0]["trials"]) == (0, 6)


def test_lines_that_are_no_records_are_told(measurer: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMAND) == 0
    Path("log.jsonl").write_text("oops\n" + Path("log.jsonl").read_text())
    capsys.readouterr()
    assert main(COMMAND) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "skipped log.jsonl:1: not JSON: Expecting value at column 1"


def test_other_records_are_starting_points(measurer: MadeUp) -> None:
    from topi_ext.machine.processor import Processor
    from topi_ext.tune.space import Space

    space = Space(WORKLOAD, Processor("x86-64 AVX-512", 64, 32, 2, 4, 2, 32 << 10, 1 << 20, 2))
    chosen = dict(space.candidates[-1].fields)
    old = TuningRecord(WORKLOAD, "x86-64 AVX-512", 0, chosen, (1e-9,), origin="inherited")
    append(Path("old.jsonl"), old)
    assert main([*COMMAND, "--tuning-records", "old.jsonl", "--trials", "2"]) == 0
    records, _ = load([Path("log.jsonl")])
    assert chosen in [record.knobs for record in records[:2]]


def test_an_interrupt_keeps_what_was_measured(measurer: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(runs: int) -> None:
        if runs == 3:
            os.kill(os.getpid(), signal.SIGINT)

    measurer.then = interrupt
    assert main([*COMMAND, "--json"]) == 130
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert (report["ended"], report["measured"]) == ("interrupted", 3)
    assert "stopping; once more to stop at once" in captured.err.splitlines()
    assert len(load([Path("log.jsonl")])[0]) == 3
    assert measurer.closed


def test_a_second_interrupt_stops_at_once(measurer: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(runs: int) -> None:
        if runs == 2:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    measurer.then = interrupt
    assert main(COMMAND) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "relay-layout: interrupted"
    assert len(load([Path("log.jsonl")])[0]) == 1
    assert measurer.closed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--rpc-key board", "--rpc-tracker and --rpc-key belong together; give both or none"),
        ("--rpc-tracker localhost:9190", "--rpc-tracker and --rpc-key belong together; give both or none"),
        (
            "--rpc-tracker localhost --rpc-key board",
            "tune: argument --rpc-tracker: expected HOST:PORT, got 'localhost'; see relay-layout tune --help",
        ),
        (
            "--time-limit 0",
            "tune: argument --time-limit: expected a number of seconds above 0, got '0'; "
            "see relay-layout tune --help",
        ),
        (
            "--trials none",
            "tune: argument --trials: expected a whole number of at least 1, got 'none'; "
            "see relay-layout tune --help",
        ),
        ("-o missing/log.jsonl", "-o: the folder {folder}/missing does not exist"),
        ("--tuning-records missing.jsonl", "tuning records: missing.jsonl: no such file"),
        ("--tuning-records a.jsonl -o a.jsonl", "-o: a.jsonl would overwrite what is being read"),
    ],
)
def test_options_that_cannot_be(
    words: str, message: str, measurer: MadeUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.jsonl").write_text("")
    assert main([*COMMAND, *words.split()]) == 2
    folder = os.path.realpath(tmp_path)
    assert capsys.readouterr().err == f"relay-layout: error: {message.format(folder=folder)}\n"
    assert measurer.runs == 0


def test_what_cannot_measure_says_so_before_layouts_are_chosen(
    measurer: MadeUp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def choose(*_: object) -> ModelTasks:
        raise AssertionError("layouts were chosen")

    monkeypatch.setattr("relay_layout.tuning.tasks.model_tasks", choose)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert main(COMMAND) == 2
    assert "error: tuning with a model needs xgboost: pip install" in capsys.readouterr().err
    assert measurer.closed


def test_a_model_without_kernels(
    measurer: MadeUp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("relay_layout.tuning.tasks.model_tasks", lambda *_: ModelTasks([], []))
    assert main(COMMAND) == 2
    assert capsys.readouterr().err == (
        "relay-layout: error: there is nothing to tune: the models hold no convolution or dense layer\n"
    )


def test_a_model_of_open_sizes(
    measurer: MadeUp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ModelTasks([], ["conv2d has symbolic extents and is not tuned"])
    monkeypatch.setattr("relay_layout.tuning.tasks.model_tasks", lambda *_: found)
    assert main(COMMAND) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "relay-layout: error: there is nothing to tune: the models hold no convolution or dense layer of "
        "fixed sizes; --input-shape gives inputs theirs"
    )


def test_a_network_of_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measurer = MadeUp()
    monkeypatch.setattr(tune, "_measurer", lambda target, remote, **_: measurer)
    monkeypatch.chdir(tmp_path)
    words = ["tune", "resnet18", "-o", "log.jsonl", "--trials", "1", "--target", "x86-64-v4", "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert sum(task["weight"] for task in report["tasks"]) == 21
    assert all(task["trials"] == 1 for task in report["tasks"])


def layouts_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What a verb reports of a convolution in NHWC."""
    options = ["--desired-layout", "NHWC", "--target", "x86-64-v4", "--no-shipped-records", "--json"]
    capsys.readouterr()
    Path("model.relay").write_text(CONVOLUTION)
    assert main([words[0], "model.relay", *words[1:], *options]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return report


def test_layouts_are_chosen_by_the_transforms_that_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measurer = MadeUp()
    monkeypatch.setattr(tune, "_measurer", lambda target, remote, **_: measurer)
    monkeypatch.chdir(tmp_path)
    before = [each["priced"] for each in layouts_of(capsys, "explain")["transforms"]]
    assert before and set(before) == {"modelled"}
    tuned = layouts_of(capsys, "tune", "-o", "log.jsonl", "--tasks", "transforms")
    assert tuned["transforms"] == {"tasks": measurer.transforms, "measured": measurer.transforms}
    assert (measurer.runs, tuned["tasks"]) == (0, [])
    after = layouts_of(capsys, "explain", "--tuning-records", "log.jsonl")
    assert {each["priced"] for each in after["transforms"]} == {"measured"}
    launch = resolve_target("x86-64-v4").facts.launch_us
    for each in after["transforms"]:
        assert each["microseconds"] == pytest.approx(launch + 1e-3 * each["bytes"] / 4, abs=1e-3)
    converted = layouts_of(capsys, "convert", "--tuning-records", "log.jsonl")
    prices = converted["layout_transform_prices"]
    assert prices == {"measured": len(after["transforms"]), "fitted": 0, "modelled": 0}
    # What is on record is not measured again.
    again = layouts_of(capsys, "tune", "-o", "log.jsonl", "--tasks", "transforms")
    assert again["transforms"]["measured"] == 0


def test_kernels_alone(measurer: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--tasks", "kernels", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (measurer.transforms, len(report["tasks"])) == (0, 1)


def test_progress_in_a_line() -> None:
    state = TuneProgress(2, 12, "conv2d", 40, 60, 123.4, 1.25, 61.4)
    assert tune.progress_line(state) == (
        "task 2 of 12 (conv2d), 40 trials, at most 60 left, best 123 GFLOP/s, all 1.250 times as fast, "
        "1:01 left"
    )
