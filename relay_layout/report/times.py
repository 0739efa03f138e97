"""Measured times in a report."""

from collections import Counter
from collections.abc import Sequence

from relay_layout.errors import InputError
from relay_layout.report.schema import Profile, Report
from relay_layout.runtime.profiling import Profile as Measured


def add_times(report: Report, name: str, measured: Measured) -> None:
    """Put the times of a profile into the report of the target ``name``.

    InputError where the report is not of what was profiled.
    """
    target = next((target for target in report["targets"] if target["name"] == name), None)
    if target is None:
        known = ", ".join(each["name"] for each in report["targets"])
        raise InputError(f"the report has no target {name}, only {known}; compile again with --report")
    times = times_of([call["function"] for call in target["calls"]], measured)
    if times is None:
        raise InputError(
            "the report is of another compilation than the artifact; compile again with --report"
        )
    for call, (microseconds, runs) in zip(target["calls"], times, strict=True):
        call["measured_us"], call["runs"] = microseconds, runs
    target["profile"] = Profile(
        cpu=measured.cpu,
        threads=measured.threads,
        repeat=measured.repeat,
        run_us=round(measured.run_us, 3),
        peak_gflops=round(measured.peak_gflops, 1),
    )


def times_of(functions: Sequence[str], measured: Measured) -> list[tuple[float, int]] | None:
    """The microseconds of each call of a network in a run, and how often it is made.

    ``functions`` are those of its calls, of "main" and then of bodies. None where others were profiled.
    """
    main = len(measured.calls)
    if [name for name, _ in measured.calls] != list(functions[:main]):
        return None
    places: dict[str, list[int]] = {}
    for place, name in enumerate(functions[main:], main):
        places.setdefault(name, []).append(place)
    times = [*((taken, 1) for _, taken in measured.calls), *((0.0, 0) for _ in functions[main:])]
    seen: Counter[str] = Counter()
    for name, taken in measured.calls_of_bodies:
        if name not in places:
            return None
        # Each trip makes its calls of a function in their order.
        place = places[name][seen[name] % len(places[name])]
        seen[name] += 1
        times[place] = round(times[place][0] + taken, 3), times[place][1] + 1
    return times
