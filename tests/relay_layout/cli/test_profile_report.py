"""The table of ``run --profile``: the names of what a kernel computes."""

from typing import Any

import pytest

from relay_layout.cli.profile_report import format_profile


def found(operators: list[str]) -> dict[str, Any]:
    """A profile of one kernel."""
    call = {
        "function": "fused_conv2d",
        "operators": operators,
        "source": "loops",
        "microseconds": 2.0,
        "runs": 1,
        "gflops": None,
        "peak_share": None,
    }
    return {"run_us": 3.0, "repeat": 1, "threads": 1, "cpu": "cpu", "peak_gflops": 1.0, "calls": [call]}


@pytest.mark.parametrize(
    ("operators", "shown"),
    [
        (["conv", "relu"], "conv, relu"),
        (["lv", "conv", "lv12", "gv"], "conv"),
        (["lv", "lv1"], "lv, lv1"),
        (["level", "lv_1"], "level, lv_1"),
        (["a", "b", "c", "d"], "a, b, c, d"),
        (["a", "b", "c", "d", "e"], "a, b, 2 more, e"),
        ([], "fused_conv2d"),
        (["a\nb"], "a b"),
    ],
)
def test_what_a_kernel_computes(operators: list[str], shown: str) -> None:
    row = format_profile(found(operators)).splitlines()[1]
    assert row.partition("loops")[2].strip() == shown
