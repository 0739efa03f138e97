"""Measured times in a report, and what follows from them."""

from typing import Any

import pytest

from relay_layout.errors import InputError
from relay_layout.report.rates import gflops, peak_share
from relay_layout.report.schema import Report
from relay_layout.report.times import add_times
from relay_layout.runtime.profiling import Profile


def measured(report: Report, **changes: Any) -> Profile:
    calls = tuple((call["function"], 10.0) for call in report["targets"][0]["calls"])
    fields: dict[str, Any] = {
        "calls": calls,
        "run_us": 75.5,
        "repeat": 3,
        "threads": 1,
        "cpu": "a CPU",
        "peak_gflops": 100.0,
    }
    return Profile(**{**fields, **changes})


def test_times_go_to_their_calls(report: Report) -> None:
    add_times(report, "x86-64-v2", measured(report))
    target = report["targets"][0]
    assert {call["measured_us"] for call in target["calls"]} == {10.0}
    assert target["profile"] == {
        "cpu": "a CPU",
        "threads": 1,
        "repeat": 3,
        "run_us": 75.5,
        "peak_gflops": 100.0,
    }


def test_the_share_of_the_peak(report: Report) -> None:
    target = report["targets"][0]
    call = next(call for call in target["calls"] if call["gigaflop"])
    assert (gflops(call), peak_share(target, call)) == (None, None)
    add_times(report, "x86-64-v2", measured(report))
    work = call["gigaflop"]
    assert work is not None
    assert gflops(call) == pytest.approx(work / 10.0 * 1e6)
    assert peak_share(target, call) == pytest.approx(work / 10.0 * 1e6 / 100)
    # The peak is that of float32.
    call["multiplied"] = "bfloat16"
    assert peak_share(target, call) is None


def test_another_target(report: Report) -> None:
    with pytest.raises(InputError) as error:
        add_times(report, "native", measured(report))
    message = "the report has no target native, only x86-64-v2; compile again with --report"
    assert str(error.value) == message


def test_another_compilation(report: Report) -> None:
    with pytest.raises(InputError) as error:
        add_times(report, "x86-64-v2", measured(report, calls=(("other", 1.0),)))
    message = "the report is of another compilation than the artifact; compile again with --report"
    assert str(error.value) == message
