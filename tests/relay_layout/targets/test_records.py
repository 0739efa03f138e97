"""Which tuning records a target knows."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tuning_logs
from relay_layout.errors import InputError, RelayLayoutWarning
from relay_layout.targets import resolve_target
from relay_layout.targets.records import recorded_kernels
from relay_layout.tuning.measurers import core_model
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.tune.records.log import load, write
from topi_ext.tune.records.record import ANY_THREADS, TuningRecord
from topi_ext.workloads.convolution import ConvolutionWorkload

WORKLOAD = ConvolutionWorkload(
    batch=1,
    in_channels=17,
    out_channels=16,
    in_height=5,
    in_width=5,
    kernel=(1, 1),
    strides=(1, 1),
    padding=(0, 0, 0, 0),
    dilation=(1, 1),
    groups=1,
    data_layout="NHWC",
    kernel_layout="OHWI16o",
    out_layout="NHWC",
    dtype="float32",
    out_dtype="float32",
)

PROCESSOR = resolve_target("x86-64-v4", threads=2).processor


def a_record(cpu: str, seconds: float, knobs: ConvolutionKnobs) -> TuningRecord:
    return TuningRecord(
        workload=WORKLOAD,
        processor=PROCESSOR.name,
        threads=2,
        knobs=knobs.to_dict(),
        seconds=(seconds,) * 3,
        time="2026-01-01T00:00:00+00:00",
        cpu=cpu,
    )


def log_with(path: Path, line: str = "") -> Path:
    path.write_text(f"{a_record('test', 1e-6, ConvolutionKnobs(16, 5, 1)).to_json()}\n{line}")
    return path


def test_a_targets_kernels_come_from_the_callers_log(tmp_path: Path) -> None:
    target = resolve_target("x86-64-v4", threads=2, tuning_records=[log_with(tmp_path / "log.jsonl")])
    choice = target.kernels.choose(WORKLOAD)
    assert (choice.source, choice.knobs) == ("tuned", ConvolutionKnobs(16, 5, 1))


@pytest.mark.parametrize(
    ("cpu", "wanted"), [("", 1e-6), ("often", 1e-6), ("once", 3e-6), ("shipped alone", 1e-6)]
)
def test_whose_records_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu: str, wanted: float
) -> None:
    """Those of the CPU that is compiled for; if the caller's logs have none, those of the one they are of."""
    shipped, own = tmp_path / "shipped.jsonl", tmp_path / "own.jsonl"
    fast = [a_record("shipped alone", 1e-7, ConvolutionKnobs(16, 1, 1))]
    often = [a_record("often", seconds, ConvolutionKnobs(16, 5, 1)) for seconds in (1e-6, 1e-6)]
    write(shipped, fast)
    write(own, [a_record("once", 3e-6, ConvolutionKnobs(16, 4, 1)), *often])
    monkeypatch.setattr("tuning_logs.paths_of", lambda processor: (shipped,))
    kernels = recorded_kernels(PROCESSOR.name, [own], cpu=cpu)
    best = kernels.database.best(WORKLOAD, PROCESSOR)
    assert best is not None and best.cost == wanted


def test_a_native_target_prefers_records_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_layout.targets.resolve.cpu_model", lambda: "this one")
    machine = resolve_target("native", threads=2).machine
    own = tmp_path / "own.jsonl"
    fast, here = (
        replace(a_record(cpu, seconds, ConvolutionKnobs(16, pixels, 1)), processor=machine.name)
        for cpu, seconds, pixels in (("another", 1e-6, 5), ("this one", 3e-6, 4))
    )
    write(own, [fast, fast, here])
    target = resolve_target("native", threads=2, tuning_records=[own])
    assert target.kernels.records is not None
    choice = target.kernels.records.choice(WORKLOAD, machine, 3.0, True)
    assert choice is not None and choice.knobs == ConvolutionKnobs(16, 4, 1)


def test_other_targets_do_not_see_it(tmp_path: Path) -> None:
    with pytest.warns(RelayLayoutWarning, match="none of the 1 is of x86-64 AVX2"):
        target = resolve_target("x86-64-v3", threads=2, tuning_records=[log_with(tmp_path / "log.jsonl")])
    assert target.kernels.choose(WORKLOAD).source == "default"


@pytest.mark.parametrize(
    ("target", "threads", "wanted"),
    [("x86-64-v3", 2, "x86-64 AVX2 with threads: 2"), ("x86-64-v4", 3, "x86-64 AVX-512 with threads: 3")],
)
def test_records_of_nothing_that_is_compiled_for_are_told(
    target: str, threads: int, wanted: str, tmp_path: Path
) -> None:
    log = log_with(tmp_path / "log.jsonl")
    with pytest.warns(RelayLayoutWarning) as told:
        resolve_target(target, threads=threads, tuning_records=[log])
    assert [str(warning.message) for warning in told] == [
        f"tuning records: none of the 1 is of {wanted}, so that they choose no kernel there; they are of "
        "x86-64 AVX-512 with threads: 2"
    ]


@pytest.mark.filterwarnings("error")
def test_records_of_any_number_of_threads_are_of_every_target(tmp_path: Path) -> None:
    record = replace(
        a_record("test", 1e-6, ConvolutionKnobs(16, 5, 1)), threads=ANY_THREADS, origin="inherited"
    )
    write(tmp_path / "log.jsonl", [record])
    resolve_target("x86-64-v4", threads=3, tuning_records=[tmp_path / "log.jsonl"])


def test_a_missing_log_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^tuning records: nowhere\.jsonl: no such file$"):
        recorded_kernels("x86-64 AVX2", ["nowhere.jsonl"])


def test_lines_that_are_no_records_are_named_and_skipped(tmp_path: Path) -> None:
    path = log_with(tmp_path / "log.jsonl", "{}\n")
    with pytest.warns(UserWarning, match=r"^tuning records: lines skipped: .*log\.jsonl:2: "):
        kernels = recorded_kernels(PROCESSOR.name, [path])
    assert kernels.database.best(WORKLOAD, PROCESSOR) is not None


@pytest.mark.parametrize("given", ["log.jsonl", 5, [5], b"log.jsonl"])
def test_what_is_no_list_of_logs_is_refused(given: Any) -> None:
    with pytest.raises(InputError) as raised:
        resolve_target("x86-64-v3", tuning_records=given)
    assert str(raised.value) == f"tuning records: a list of logs is needed, not {given!r}"


def test_the_packages_records_can_be_left_out() -> None:
    with_them, without = (
        recorded_kernels(PROCESSOR.name, shipped=shipped).database.best_of(PROCESSOR)
        for shipped in (True, False)
    )
    assert with_them and not without


@pytest.mark.parametrize("log", tuning_logs.paths(), ids=lambda path: path.stem)
def test_a_log_of_the_package_is_of_one_kind_of_processor(log: Path) -> None:
    (processor,) = {json.loads(line)["processor"] for line in log.read_text().splitlines()}
    assert log in tuning_logs.paths_of(processor)


def test_there_may_be_no_log_of_a_kind_of_processor() -> None:
    assert tuning_logs.paths_of("a processor of next year") == ()


def test_winograd_can_be_switched_off() -> None:
    assert not resolve_target("x86-64-v4", winograd=False).kernels.winograd


ARM_LOGS = [path for path in tuning_logs.paths() if path.name.startswith("arm_")]


def core_of(log: Path) -> str:
    return log.stem.removeprefix("arm_").rpartition("-")[0].replace("_", "-")


def kernel_records(log: Path) -> list[TuningRecord]:
    records, problems = load([log])
    assert records and not problems
    return [record for record in records if isinstance(record, TuningRecord)]


@pytest.mark.parametrize("log", ARM_LOGS, ids=lambda path: path.stem)
def test_shipped_records_of_arm_are_modelled_and_are_found(log: Path) -> None:
    records = kernel_records(log)
    target = resolve_target(f"aarch64-{core_of(log)}", threads=records[0].threads)
    for record in records:
        assert (record.origin, record.processor) == ("modelled", target.processor.name)
        assert record.cpu.startswith("llvm-mca")
        choice = target.kernels.choose(record.workload)
        assert choice.source == "modelled", record


@pytest.mark.usefixtures("llvm_mca")
@pytest.mark.parametrize("log", ARM_LOGS, ids=lambda path: path.stem)
def test_shipped_records_of_arm_are_no_worse_than_the_defaults(log: Path) -> None:
    """By the model that they come from; a few of each log, since each is compiled twice."""
    records = kernel_records(log)
    target = resolve_target(f"aarch64-{core_of(log)}", threads=records[0].threads)
    model = core_model(target)
    for record in random.Random(0).sample(records, 3):
        assert isinstance(record.workload, ConvolutionWorkload)
        default = replace(target.kernels, records=None).choose(record.workload).knobs
        chosen = target.kernels.choose(record.workload).knobs
        assert model.seconds(record.workload, chosen) <= 1.01 * model.seconds(record.workload, default), (
            record
        )
