"""Defaults beside tuned kernels: what is measured, and what is said of it."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from relay_layout.targets import BuildTarget, resolve_target
from scripts import compare_defaults
from scripts.compare_defaults import Pair, main, measure, recorded, report
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.spaces.convolution import cheapest
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.separable import SeparableWorkload


class FakeMeasurer:
    tuned = 1.0

    def __init__(self, target: BuildTarget, seconds: float) -> None:
        assert seconds == 0.2

    def __enter__(self) -> "FakeMeasurer":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def compare(self, workload: ConvolutionWorkload, kernels: Mapping[str, Any]) -> dict[str, float]:
        assert kernels["default"] != kernels["tuned"]
        return {"default": 2.0, "tuned": self.tuned}


@pytest.fixture(scope="module")
def target() -> BuildTarget:
    return resolve_target("x86-64-v4", threads=2)


def test_every_shipped_record_has_a_pair(target: BuildTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_defaults, "LayerMeasurer", FakeMeasurer)
    pairs = measure([], target, 0.2)
    assert len(pairs) == len(recorded([], target)) > 20
    for pair in pairs:
        assert not isinstance(pair.workload, SeparableWorkload), "measured as a layer, which it is not"
        assert pair.default == cheapest(pair.workload, target.processor)[1]
        assert pair.ratio == (1.0 if pair.default == pair.tuned else 2.0)


def test_the_slowest_default_comes_first(target: BuildTarget) -> None:
    workload, tuned = recorded([], target)[0]
    other = ConvolutionKnobs(16, 1, 1)
    pairs = [Pair(workload, tuned, tuned, 1, 1), Pair(workload, other, tuned, 3, 2)]
    lines = report([*pairs, Pair(workload, other, tuned, 8, 2)]).splitlines()
    assert lines[1].endswith("4.00")
    assert lines[2].endswith("1.50")
    assert lines[-2:] == [
        "3 workloads on record, of which 1 have the default",
        "untuned over tuned, geometric mean: 1.82",
    ]


@pytest.mark.parametrize(("tuned", "status"), [(1.9, 0), (0.5, 1)])
def test_exit_status(
    tuned: float,
    status: int,
    target: BuildTarget,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(FakeMeasurer, "tuned", tuned)
    monkeypatch.setattr(compare_defaults, "LayerMeasurer", FakeMeasurer)
    monkeypatch.setattr(compare_defaults, "resolve_target", lambda threads: target)
    monkeypatch.setattr(sys, "argv", ["compare_defaults"])
    assert main() == status
    assert "untuned over tuned, geometric mean: " in capsys.readouterr().out


def test_without_records(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(compare_defaults, "recorded", lambda logs, target: [])
    monkeypatch.setattr(sys, "argv", ["compare_defaults", "--threads", "63"])
    assert main() == 2
    assert "with 63 threads" in capsys.readouterr().err
