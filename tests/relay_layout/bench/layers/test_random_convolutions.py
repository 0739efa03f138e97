"""The script that measures random convolutions: what it draws, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relay_layout.bench.layers.measurer import LayerMeasurer, LayerTimes
from relay_layout.targets import BuildTarget, resolve_target
from scripts import random_convolutions
from scripts.random_convolutions import (
    LEAST_MACS,
    MOST_MACS,
    Outcome,
    in_cheapest_layouts,
    main,
    random_workload,
    report,
)
from topi_ext.workloads.convolution import ConvolutionWorkload

SIMPLE = replace(random_workload(0, 0), data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC")


@pytest.fixture(scope="module")
def target() -> BuildTarget:
    return resolve_target("x86-64-v3", threads=2, shipped_records=False)


def outcome(number: int, ours: float | None, onednn: float | None = 10.0, **fields: Any) -> Outcome:
    times = LayerTimes(ours, onednn, **{"relative_error": 1e-6, **fields})
    return Outcome(number, SIMPLE, "direct 4x1 pixels", times)


def test_a_number_is_always_the_same_convolution() -> None:
    assert random_workload(3, 7) == random_workload(3, 7)
    assert len({random_workload(3, number).to_json() for number in range(20)}) == 20
    assert random_workload(4, 7) != random_workload(3, 7)


def test_all_kinds_are_drawn() -> None:
    found = [random_workload(0, number) for number in range(200)]
    assert {workload.kernel[1] for workload in found} == set(range(1, 8))
    assert {workload.batch for workload in found} == {1, 2, 3, 4}
    assert {workload.strides[0] for workload in found} == {1, 2, 3}
    assert {workload.dilation[0] for workload in found} == {1, 2, 3}
    assert any(workload.is_depthwise for workload in found)
    assert any(workload.groups > 1 and not workload.is_depthwise for workload in found)
    assert any(workload.kernel[0] != workload.kernel[1] for workload in found)
    assert sum(workload.in_channels % 4 != 0 for workload in found) > 50
    assert all(LEAST_MACS <= workload.macs <= MOST_MACS for workload in found)
    assert all(
        workload.in_channels % workload.groups == workload.out_channels % workload.groups == 0
        for workload in found
    )


def test_only_layouts_are_chosen(target: BuildTarget) -> None:
    for number in range(4):
        plain = random_workload(1, number)
        chosen = in_cheapest_layouts(plain, target)
        same: dict[str, Any] = {
            name: getattr(plain, name) for name in ("data_layout", "kernel_layout", "out_layout")
        }
        assert replace(chosen, **same) == plain


def test_channels_without_a_block_are_stored_last(target: BuildTarget) -> None:
    odd = replace(SIMPLE, in_channels=13, out_channels=7, groups=1)
    chosen = in_cheapest_layouts(odd, target)
    assert (chosen.data_layout, chosen.kernel_layout, chosen.out_layout) == ("NHWC", "OHWI8o", "NHWC")


def test_problems_name_how_to_repeat_them() -> None:
    outcomes = [
        outcome(0, 5.0),
        outcome(1, 21.0),
        outcome(2, 20.0),
        outcome(3, 5.0, relative_error=1e-3),
        outcome(4, None, relative_error=None, failures=("relay-layout: no",)),
        outcome(5, 5.0, relative_error=None),
    ]
    lines = report(outcomes, 9, {"relay-layout": 1.0}).splitlines()
    again = "python -m scripts.random_convolutions --seed 9 --only"
    assert lines[-6:] == [
        "part of every time, a call of a layer of one pixel: relay-layout 1.0 us",
        f"2.10 times oneDNN's time: {again} 1",
        f"relative error 1.0e-03: {again} 3",
        f"relay-layout: no: {again} 4",
        f"results cannot be compared: {again} 5",
        "4 of 6 convolutions with problems",
    ]


def test_the_worst_come_first_and_noise_is_marked() -> None:
    outcomes = [
        outcome(number, float(number), ours_least_us=5.0, onednn_least_us=10.0) for number in range(1, 31)
    ]
    lines = report(outcomes, 0, {}).splitlines()
    assert [line.split()[0] for line in lines[1:21]] == [str(number) for number in range(30, 10, -1)]
    assert lines[1].split()[-3:] == ["3.00?", "3.00", "1.0e-06"]
    assert lines[21].startswith("ratio, quantiles over 30: 0%: 0.10, 10%: 0.39, 25%: 0.83, 50%: 1.55, ")
    assert lines[22] == "geometric mean 1.20"
    assert lines[23] == "? 23 measured while the machine was busy: repeat them when it is idle"


def test_a_busy_machine_does_not_hide_a_slow_kernel() -> None:
    hidden = outcome(0, 30.0, 8000.0, ours_least_us=25.0, onednn_least_us=10.0)
    assert hidden.is_noisy
    assert hidden.problems == ["2.50 times oneDNN's time"]
    assert report([hidden], 0, {}).splitlines()[1].split()[-3:] == ["0.00?", "2.50", "1.0e-06"]


class FakeMeasurer:
    """Stands for LayerMeasurer: convolutions take us ``slow``, and oneDNN one microsecond."""

    missing: str | None = None
    slow = 1.0

    def __init__(self, target: BuildTarget, seconds: float) -> None:
        assert target.kernels.records is not None
        assert not target.kernels.records.database.of_processor(target.processor)

    def __enter__(self) -> FakeMeasurer:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def call_us(self) -> dict[str, float]:
        return {}

    def measure(self, workload: ConvolutionWorkload, knobs: Any, original: ConvolutionWorkload) -> LayerTimes:
        assert workload.macs >= original.macs
        return LayerTimes(self.slow, 1.0, relative_error=0.0)


@pytest.mark.parametrize(("slow", "status"), [(2.0, 0), (2.01, 1)])
def test_exit_status(
    slow: float, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeMeasurer, "slow", slow)
    monkeypatch.setattr(random_convolutions, "LayerMeasurer", FakeMeasurer)
    assert main(["--count", "2", "--threads", "1"]) == status
    assert f"{2 * status} of 2 convolutions with problems" in capsys.readouterr().out


def test_only_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(random_convolutions, "LayerMeasurer", FakeMeasurer)
    assert main(["--only", "5", "--threads", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("1/1: number 5: conv2d ")
    assert captured.out.splitlines()[1].startswith("5 ")


def test_bad_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["--count", "0"])
    assert error.value.code == 2
    assert capsys.readouterr().err.endswith("error: --count and --seconds must be positive\n")
    with pytest.raises(SystemExit) as error:
        main(["--only", "-1"])
    assert error.value.code == 2
    assert capsys.readouterr().err.endswith("error: --seed and --only must not be negative\n")
    monkeypatch.setattr(FakeMeasurer, "missing", "oneDNN: needs torch")
    monkeypatch.setattr(random_convolutions, "LayerMeasurer", FakeMeasurer)
    with pytest.raises(SystemExit) as error:
        main([])
    assert error.value.code == 2
    assert capsys.readouterr().err.endswith("error: oneDNN: needs torch\n")


@pytest.mark.slow
def test_random_convolutions_are_right() -> None:
    pytest.importorskip("torch")
    target = resolve_target(threads=1, shipped_records=False)
    with LayerMeasurer(target, 0.01) as measurer:
        found = random_convolutions.measure(range(20), 0, target, measurer)
    errors = [one.times.relative_error for one in found]
    assert [error for error in errors if error is None or error > random_convolutions.TOLERANCE] == []
