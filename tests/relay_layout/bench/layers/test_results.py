"""What follows from the times of layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relay_layout.bench.layers.measurer import TINY, LayerTimes
from relay_layout.bench.layers.results import LayerRow, algorithm, failed, is_noisy, layer_row, totals
from topi_ext.kernel_choice import KernelChoice
from topi_ext.knobs import ConvolutionKnobs, WinogradKnobs

DIRECT = ConvolutionKnobs(16, 1, 1)


def row(
    uses: int,
    ours: float | None = 10.0,
    onednn: float | None = 20.0,
    *,
    error: float | None = 1e-6,
    gigaflop: float = 0.001,
) -> LayerRow:
    workload = replace(TINY, in_width=round(gigaflop * 1e9 / 2 / 256))
    times = LayerTimes(ours, onednn, relative_error=error)
    return layer_row(workload, uses, KernelChoice(DIRECT, "default", 1.0), times, 1000.0)


def test_totals_count_uses() -> None:
    found = totals([row(3), row(1, 40.0, 20.0, gigaflop=0.002)], 1000.0)
    assert (found["uses"], found["ours_us"], found["onednn_us"]) == (4, 70.0, 80.0)
    assert found["gigaflop"] == pytest.approx(0.005, rel=1e-3)
    assert found["gflops"] == pytest.approx(0.005 / 70e-6, rel=1e-3)
    assert found["peak_share"] == pytest.approx(0.005 / 70e-6 / 1000, rel=1e-3)
    assert found["ratio"] == pytest.approx(70 / 80)
    assert found["geometric_mean"] == pytest.approx(1.0)


def test_layers_without_both_times_or_with_other_results_are_in_no_ratio() -> None:
    found = totals([row(1), row(1, None), row(1, 30.0, None), row(1, 1.0, 900.0, error=0.5)], 1000.0)
    assert found["ratio"] == found["geometric_mean"] == pytest.approx(0.5)
    assert found["ours_us"] == 41.0


def test_totals_of_nothing() -> None:
    found = totals([row(2, None, None, error=None)], 1000.0)
    assert (found["gflops"], found["peak_share"], found["ratio"], found["geometric_mean"]) == (None,) * 4


def test_results_agree_only_where_they_were_compared() -> None:
    assert row(1)["agrees"] is True
    assert row(1, error=0.01)["agrees"] is False
    assert row(1, error=None)["agrees"] is False
    assert row(1, onednn=None, error=None)["agrees"] is None


def test_algorithms_have_names() -> None:
    assert algorithm(DIRECT) == "direct"
    assert algorithm(WinogradKnobs(4, 16, 16, 7, 2)) == "winograd F(4,3)"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(1)], False),
        ([row(1), row(1, None)], True),
        ([row(1, error=0.5)], True),
        ([row(1, onednn=None)], False),
    ],
)
def test_only_our_own_failures_fail(rows: list[LayerRow], expected: bool) -> None:
    model = {"model": "m", "layers": rows, "totals": totals(rows, 1.0), "notes": []}
    result: Any = {"models": [model]}
    assert failed(result) is expected


def test_noise_is_a_median_far_above_the_least() -> None:
    assert is_noisy(16.0, 10.0)
    assert not is_noisy(14.0, 10.0)
    assert not is_noisy(None, None)
