"""How long each kernel of a loaded network takes, in its place between the others.

TVM's virtual machine calls an observer before and after every call. One within which others are made, as that
of a loop is, is no kernel. Memory is as cold as the calls before leave it, and the threads as awake. What
observing itself takes, some microseconds, is that of the quickest call and is taken off all times.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relay_layout.environment import host
from relay_layout.errors import InputError
from relay_layout.runtime.peak import measure_peak
from relay_layout.runtime.session import Session
from relay_layout.runtime.threads import set_threads

_WARM_UP_RUNS = 5
_BUILTIN = "vm.builtin."
_GO_ON = 0
"""What an observer returns so that the call is made."""


@dataclass(frozen=True)
class Profile:
    """Medians of ``repeat`` runs, in microseconds.

    ``calls`` are the kernels of "main" in the order in which they run, ``calls_of_bodies`` those of all trips
    of loops and of branches taken, ``run_us`` is a whole run without observer.
    ``peak_gflops`` is what this machine multiplies and adds at most with so many ``threads``, in 1e9
    operations a second.
    """

    calls: tuple[tuple[str, float], ...]
    run_us: float
    repeat: int
    threads: int
    cpu: str
    peak_gflops: float
    calls_of_bodies: tuple[tuple[str, float], ...] = ()


def profile(
    session: Session, inputs: Mapping[str, np.ndarray], *, repeat: int, clock: Callable[[], int] | None = None
) -> Profile:
    """Time whole runs of ``inputs``, then each of their calls; ``session`` stays slower by the observer.

    ``clock`` gives nanoseconds. Raises InputError for inputs that the network does not take, for runs that
    make different calls, and for a GPU's code, whose calls are one launch.
    """
    if session.on_gpu:
        raise InputError(f"target {session.target}: kernels of a GPU cannot be timed one by one")
    now = clock or time.perf_counter_ns
    session.feed(inputs)
    for _ in range(_WARM_UP_RUNS):
        session.execute()
    runs = []
    for _ in range(repeat):
        start = now()
        session.execute()
        runs.append((now() - start) / 1e3)
    outer, inner = _observed(session, repeat, now)
    peak = measure_peak(session.threads)
    set_threads(session.threads)
    return Profile(
        outer,
        statistics.median(runs),
        repeat,
        session.threads,
        host.cpu_model(),
        peak,
        inner,
    )


_Calls = tuple[tuple[str, float], ...]


def _observed(session: Session, repeat: int, now: Callable[[], int]) -> tuple[_Calls, _Calls]:
    """The kernels that "main" calls, and those that bodies do, with the median microseconds of each."""
    events: list[tuple[str, int]] = []
    under_way: list[int] = []
    callers: set[int] = set()
    inside: set[int] = set()

    def observe(function: Any, name: str, before: bool, result: Any, *arguments: Any) -> int:
        # The clock last before the call, and first after it.
        if before:
            callers.update(under_way)
            if under_way:
                inside.add(len(events))
            under_way.append(len(events))
            events.append((name, now()))
        else:
            ended = now()
            place = under_way.pop()
            events[place] = name, ended - events[place][1]
        return _GO_ON

    session.observe(observe)
    samples: list[list[int]] = []
    for run in range(repeat + 1):
        events.clear()
        session.execute()
        if run:
            samples.append([taken for _, taken in events])
    counts = sorted({len(sample) for sample in samples})
    if len(counts) > 1:
        raise InputError(
            f"runs called {counts[0]} to {counts[-1]} kernels, so that no call has a time of its own; "
            "profile inputs of which every run makes the same calls"
        )
    medians = [statistics.median(taken) / 1e3 for taken in zip(*samples, strict=True)]
    least = min(medians, default=0.0)
    found = [
        (place, (name, round(median - least, 3)))
        for place, ((name, _), median) in enumerate(zip(events, medians, strict=True))
        if place not in callers and not name.startswith(_BUILTIN)
    ]
    outer = tuple(call for place, call in found if place not in inside)
    return outer, tuple(call for place, call in found if place in inside)
