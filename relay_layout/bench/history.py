"""Saved benchmarks, and whether a new one is faster.

Two medians of the same code differ, because the machine was warmer or busier. So a change counts only beyond
a margin: the spread of both measurements, at least :data:`LEAST_MARGIN`. And where runtimes of the same
version were measured both times, what they became slower or faster by is the machine's doing and taken off.
"""

import json
import math
import statistics
import time
from typing import Literal, TypedDict

from relay_layout.bench.machine import describe_machine
from relay_layout.bench.peers import OURS
from relay_layout.bench.results import BenchResult, ModelResult, PeerResult
from relay_layout.bench.table import columns_of_numbers
from relay_layout.errors import InputError
from relay_layout.typed_json import check
from topi_ext.files.whole_file import opened, replaced

KIND = "relay-layout benchmark"
SCHEMA = 1

LEAST_MARGIN = 0.03
"""Share by which medians on one machine differ from day to day, whatever their spread within a run."""

Verdict = Literal["faster", "slower", "same"]


class Saved(TypedDict):
    """A benchmark as a file holds it; ``time`` is when it was taken, in UTC."""

    kind: str
    schema: int
    time: str
    result: BenchResult


class Change(TypedDict):
    """One model now and before, in milliseconds.

    ``change`` is the time now over the time before, less the machine's ``drift``; ``margin`` what it must
    differ from 1 by to count.
    """

    model: str
    before_ms: float
    after_ms: float
    drift: float
    change: float
    margin: float
    verdict: Verdict


def save(path: str, result: BenchResult) -> None:
    """Write a benchmark as JSON; nothing half-written is left."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    saved = Saved(kind=KIND, schema=SCHEMA, time=now, result=result)
    with replaced(path) as file:
        file.write(f"{json.dumps(saved, allow_nan=False)}\n".encode())


def load(path: str) -> Saved:
    """Read what :func:`save` wrote. InputError for anything else."""
    try:
        with opened(path) as file:
            data = json.loads(file.read().decode())
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not a saved benchmark: it is not readable as JSON") from None
    if not isinstance(data, dict) or data.get("kind") != KIND or data.get("schema") != SCHEMA:
        raise InputError(f"{path}: not a benchmark that bench --save of this version wrote")
    check(data, Saved, path)
    return data  # type: ignore[return-value]


def check_comparable(path: str, saved: Saved, threads: int) -> None:
    """InputError, before anything is measured, where times of here and of there say nothing of each other."""
    there, here = saved["result"]["machine"], describe_machine()
    if there["cpu"] != here["cpu"] or there["cores"] != here["cores"]:
        raise InputError(
            f"--against: {path} was measured on {there['cpu']} with {there['cores']} cores, "
            f"and this is {here['cpu']} with {here['cores']}"
        )
    used = sorted({model["threads"] for model in saved["result"]["models"]})
    if used != [threads]:
        counts = " and ".join(map(str, used))
        raise InputError(f"--against: {path} was measured with {counts} threads; give --threads {counts}")


def changes(before: BenchResult, after: BenchResult) -> list[Change]:
    """relay-layout's times of the models that both benchmarks have."""
    known = {model["model"]: model for model in before["models"] if OURS in model["peers"]}
    return [
        _change(known[model["model"]], model)
        for model in after["models"]
        if model["model"] in known and OURS in model["peers"]
    ]


def format_changes(found: list[Change], when: str) -> str:
    """A table of the verdicts, and their geometric mean."""
    if not found:
        return f"no model in common with the benchmark of {when}"
    rows = [["model", "before", "now", "machine", "change", "margin", "verdict"]]
    for each in found:
        rows.append(
            [
                each["model"],
                f"{each['before_ms']:.3f}",
                f"{each['after_ms']:.3f}",
                f"{each['drift'] - 1:+.1%}",
                f"{each['change'] - 1:+.1%}",
                f"{each['margin']:.1%}",
                each["verdict"],
            ]
        )
    mean = statistics.geometric_mean(each["change"] for each in found)
    heading = f"relay-layout against {when}, ms; change: time now over time before, less the machine's"
    return f"{heading}\n{columns_of_numbers(rows)}\ngeometric mean of the changes {mean - 1:+.1%}"


def _change(before: ModelResult, after: ModelResult) -> Change:
    ours = before["peers"][OURS], after["peers"][OURS]
    drift = _drift(before, after)
    change = ours[1]["median_ms"] / ours[0]["median_ms"] / drift
    margin = max(LEAST_MARGIN, math.hypot(*map(_spread, ours)))
    verdict: Verdict = "same"
    if change > 1 + margin:
        verdict = "slower"
    elif change < 1 / (1 + margin):
        verdict = "faster"
    return Change(
        model=after["model"],
        before_ms=ours[0]["median_ms"],
        after_ms=ours[1]["median_ms"],
        drift=drift,
        change=change,
        margin=margin,
        verdict=verdict,
    )


def _drift(before: ModelResult, after: ModelResult) -> float:
    """The median change of the other runtimes, those of the same version; 1 without any."""
    ratios = [
        peer["median_ms"] / before["peers"][name]["median_ms"]
        for name, peer in after["peers"].items()
        if name != OURS and name in before["peers"] and before["peers"][name]["version"] == peer["version"]
    ]
    return statistics.median(ratios) if ratios else 1.0


def _spread(peer: PeerResult) -> float:
    """Half the range that the middle half of the times lies in, as a share of their median."""
    return peer["iqr_ms"] / 2 / peer["median_ms"]
