"""Measured times in a report."""

from collections.abc import Sequence

from relay_layout.errors import InputError
from relay_layout.report.schema import Profile, Report, Target
from relay_layout.runtime.profiling import Profile as Measured


def add_times(report: Report, name: str, measured: Measured) -> None:
    """Put the times of a profile into the report of the target ``name``.

    InputError where the report is not of what was profiled.
    """
    target = next((target for target in report["targets"] if target["name"] == name), None)
    if target is None:
        known = ", ".join(each["name"] for each in report["targets"])
        raise InputError(f"the report has no target {name}, only {known}; compile again with --report")
    _check_same(target, [function for function, _ in measured.calls])
    for call, (_, microseconds) in zip(target["calls"], measured.calls, strict=True):
        call["measured_us"] = microseconds
    target["profile"] = Profile(
        cpu=measured.cpu,
        threads=measured.threads,
        repeat=measured.repeat,
        run_us=round(measured.run_us, 3),
        peak_gflops=round(measured.peak_gflops, 1),
    )


def _check_same(target: Target, functions: Sequence[str]) -> None:
    if [call["function"] for call in target["calls"]] != list(functions):
        raise InputError(
            "the report is of another compilation than the artifact; compile again with --report"
        )


__all__ = ["add_times"]
