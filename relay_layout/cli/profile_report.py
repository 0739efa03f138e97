"""The times of ``run --profile``, for people and for a report."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from relay_layout.cli.output import one_line
from relay_layout.columns import columns
from relay_layout.report.rates import share
from relay_layout.report.schema import Report
from relay_layout.report.times import add_times, times_of
from relay_layout.runtime.profiling import profile

_MOST_ROWS = 30

_MOST_NAMES = 4
"""Of the operators of one kernel, which may be a hundred steps of a quantized layer."""

_GIVEN_BY_RELAX = re.compile(r"(lv|gv)\d*")
"""Names of results that have none in the model."""


def profile_of(session: Any, inputs: Mapping[str, Any], repeat: int, report: Report | None) -> dict[str, Any]:
    """Times of every kernel of a loaded artifact, which also go into ``report`` where there is one."""
    measured = profile(session, inputs, repeat=repeat)
    if report is not None:
        add_times(report, session.target, measured)
    build = next(each for each in session.artifact.manifest.builds if each.name == session.target)
    known = build.report.get("calls", [])
    times = times_of([call["function"] for call in known], measured)
    if times is None:
        # An artifact that another version compiled may not say what each call computes.
        names = [name for name, _ in (*measured.calls, *dict(measured.calls_of_bodies).items())]
        known, times = [{"function": name} for name in names], times_of(names, measured) or []
    calls = []
    for call, (taken, runs) in zip(known, times, strict=True):
        work = call.get("gigaflop")
        rate = work * runs / taken * 1e6 if work and taken else None
        calls.append(
            {
                "function": call["function"],
                "operators": call.get("operators", []),
                "source": call.get("source", ""),
                "microseconds": taken,
                "runs": runs,
                "gflops": rate,
                "peak_share": share(rate, measured.peak_gflops, call.get("multiplied", "")),
            }
        )
    return {
        "run_us": measured.run_us,
        "repeat": measured.repeat,
        "threads": measured.threads,
        "cpu": measured.cpu,
        "peak_gflops": measured.peak_gflops,
        "calls": calls,
    }


def format_profile(found: Mapping[str, Any]) -> str:
    """A table of the kernels, those that take most first."""
    total = sum(call["microseconds"] for call in found["calls"]) or 1.0
    rows = [["us", "of run", "GFLOP/s", "of peak", "from", "computes"]]
    trips = any(call["runs"] != 1 for call in found["calls"])
    rows[0][1:1] = ["runs"] if trips else []
    calls = sorted(found["calls"], key=lambda call: -call["microseconds"])
    for call in calls[:_MOST_ROWS]:
        rate, share = call["gflops"], call["peak_share"]
        rows.append(
            [
                f"{call['microseconds']:.1f}",
                *([str(call["runs"])] if trips else []),
                f"{call['microseconds'] / total:.1%}",
                "" if rate is None else f"{rate:.0f}",
                "" if share is None else f"{share:.0%}",
                call["source"],
                one_line(_computed(call["operators"]) or call["function"]),
            ]
        )
    lines = [columns(rows, right=range(len(rows[0]) - 2))]
    if len(calls) > _MOST_ROWS:
        lines.append(f"and {len(calls) - _MOST_ROWS} more; --json has all")
    made = sum(call["runs"] for call in calls)
    lines.append(
        f"{total:.1f} us in {made} calls; {found['run_us']:.1f} us a run without timers; "
        f"peak {found['peak_gflops']:.0f} GFLOP/s"
    )
    return "\n".join(lines)


def _computed(operators: Sequence[str]) -> str:
    """The names of the operators of a kernel: those of the model where there are any, and not too many."""
    names = [name for name in operators if not _GIVEN_BY_RELAX.fullmatch(name)] or list(operators)
    if len(names) > _MOST_NAMES:
        names[2:-1] = [f"{len(names) - 3} more"]
    return ", ".join(names)
