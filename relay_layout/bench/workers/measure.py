"""Interleaved measurement of several runtimes on one machine.

A runtime's thread pool keeps spinning for a while after its last work, and two pools in one process
take each other's processors. So every peer runs in a process of its own (:mod:`.worker`), only one of
them works at a time, and it hands over only when its threads have gone to sleep.

The peers take turns in short blocks instead of being measured one after another, and who begins moves
on by one each round: what changes slowly on the machine (clock frequency, other load) hits all alike.
The first run of a block is not timed, because the others have just taken the caches.

All times are in seconds unless a name says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypedDict

import numpy as np

from relay_layout.bench.workers.process import PeerError

SLOW_S = 0.5
"""From this latency on a model is run few times: one run tells enough."""

SLOW_REPEATS = 3

_MINIMUM_ROUNDS = 5
_WARM_UP_RUNS = 5
"""torch's traces need a few to specialise themselves."""


class BlockRunner(Protocol):
    """Something that can run a model several times in a row, such as a worker process."""

    def run(self, settle: int, repeats: int) -> list[float]:
        """Run ``settle`` times untimed, then ``repeats`` times; returns the seconds of each of these."""


class Summary(TypedDict):
    """What is reported of a peer's run times."""

    median_ms: float
    min_ms: float
    iqr_ms: float
    repeats: int


def summarize(seconds: list[float]) -> Summary:
    """Median, minimum and interquartile range, in milliseconds."""
    milliseconds = np.asarray(seconds) * 1e3
    low, median, high = np.percentile(milliseconds, [25, 50, 75])
    return Summary(
        median_ms=float(median),
        min_ms=float(milliseconds.min()),
        iqr_ms=float(high - low),
        repeats=len(seconds),
    )


@dataclass
class Measured:
    """Run times in seconds by peer, and the message of each peer that failed on the way."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


@dataclass
class _Turns:
    """One peer's share: how many runs its blocks have, and what it has used up."""

    runner: BlockRunner
    latency: float
    budget: float
    block: float
    spent: float = 0.0
    rounds: int = 0
    samples: list[float] = field(default_factory=list)

    @property
    def is_slow(self) -> bool:
        return self.latency > SLOW_S

    @property
    def done(self) -> bool:
        if self.is_slow:
            return len(self.samples) >= SLOW_REPEATS
        return self.rounds >= _MINIMUM_ROUNDS and self.spent >= self.budget

    def take(self) -> None:
        settle = 0 if self.is_slow else 1
        repeats = max(1, round(self.block / self.latency) - settle)
        times = self.runner.run(settle, repeats)
        self.samples += times
        # Not their sum: a run that the machine held up would cost this peer some of its others.
        self.spent += (settle + repeats) * float(np.median(times))
        self.rounds += 1


def measure_interleaved(runners: Mapping[str, BlockRunner], seconds: float) -> Measured:
    """Measure all runners in turns for about ``seconds`` of running time each.

    One whose latency is above half a second is run three times, however long that takes. A runner
    that raises :class:`PeerError` is left out from then on; the others go on.
    """
    result = Measured()
    turns: dict[str, _Turns] = {}
    block = min(0.25, seconds / 10)
    for name, runner in runners.items():
        try:
            latency = _warm_up(runner, seconds / 10)
        except PeerError as error:
            result.failures[name] = str(error)
        else:
            turns[name] = _Turns(runner, latency, seconds, block)
    order = list(turns)
    while any(not turns[name].done for name in order):
        for name in list(order):
            if turns[name].done:
                continue
            try:
                turns[name].take()
            except PeerError as error:
                result.failures[name] = str(error)
                order.remove(name)
        order = order[1:] + order[:1]
    result.seconds = {name: turn.samples for name, turn in turns.items() if name in order}
    return result


def _warm_up(runner: BlockRunner, seconds: float) -> float:
    """Run until caches, clocks and traces have settled; returns an estimate of the latency."""
    latency = runner.run(0, 1)[0]
    if latency > SLOW_S:
        return latency
    latency = min(runner.run(0, _WARM_UP_RUNS))
    return min(runner.run(0, max(1, round(seconds / max(latency, 1e-6)))))
