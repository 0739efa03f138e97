"""How good the search is: strategies replayed on kernels that were all measured before."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import mean

from topi_ext.family import Workload
from topi_ext.machine.processor import Processor
from topi_ext.tune.records.ranking import rank_records
from topi_ext.tune.records.record import Record, TuningRecord
from topi_ext.tune.search import Strategy
from topi_ext.tune.space import Space

GOOD = 0.95
"""The share of the best speed that a search has to reach."""

COVERAGE = 0.95
"""The share of a space that a log must hold for a comparison."""

BATCH = 8
"""Candidates that a strategy proposes at a time, as in tuning."""


@dataclass(frozen=True)
class Replay:
    """A space with the measured seconds of its candidates, infinite for those that failed or are missing."""

    workload: Workload
    space: Space
    seconds: dict[str, float]

    @property
    def best(self) -> float:
        """The least seconds of all."""
        return min(self.seconds.values())

    @property
    def coverage(self) -> float:
        """The share of the space that was measured."""
        return len(self.seconds) / len(self.space)

    def seconds_of(self, key: str) -> float:
        """The seconds of one candidate."""
        return self.seconds.get(key, inf)


@dataclass(frozen=True)
class Curve:
    """One search: the least seconds after each trial."""

    bests: tuple[float, ...]

    def trials_to(self, seconds: float) -> int | None:
        """The number of trials after which the best took at most that long; None where it never did."""
        return next((count for count, best in enumerate(self.bests, 1) if best <= seconds), None)

    def after(self, trials: int) -> float:
        """The best of so many trials; of all where there were fewer."""
        return self.bests[min(trials, len(self.bests)) - 1]


@dataclass(frozen=True)
class Comparison:
    """One workload: how a strategy did, and random search with the same number of trials.

    ``best`` is the least seconds of all. ``trials`` and ``random_trials`` are those until :data:`GOOD` of
    the best speed was reached, for each seed; ``share`` and ``random_share`` are the mean shares of the best
    speed after a quarter of the space.
    """

    workload: Workload
    size: int
    best: float
    trials: tuple[int, ...]
    random_trials: tuple[int, ...]
    share: float
    random_share: float

    @property
    def is_quick(self) -> bool:
        """Was a quarter of the space enough?"""
        return mean(self.trials) <= self.size / 4

    @property
    def beats_random(self) -> bool:
        """Was the best found at least as good as random search's?"""
        return self.share >= self.random_share


def replays(records: Iterable[Record], processor: Processor) -> list[Replay]:
    """The measured workloads of a log with their spaces, most of them covered first."""
    by_workload: dict[Workload, list[TuningRecord]] = {}
    for record in records:
        ours = record.processor == processor.name and record.threads == processor.threads
        if ours and isinstance(record, TuningRecord) and record.origin == "measured":
            by_workload.setdefault(record.workload, []).append(record)
    found = []
    for workload, trials in by_workload.items():
        space = Space(workload, processor)
        seconds: dict[str, float] = {}
        for record in trials:
            candidate = space.find(record.knobs)
            if candidate is not None:
                seconds.setdefault(candidate.key, inf)
        for record in rank_records(trials):
            candidate = space.find(record.knobs)
            if candidate is not None:
                seconds[candidate.key] = record.cost
        if min(seconds.values(), default=inf) < inf:
            found.append(Replay(workload, space, seconds))
    return sorted(found, key=lambda replay: -replay.coverage)


def search_curve(replay: Replay, strategy: Strategy, least_trials: int) -> Curve:
    """Run a strategy until it has found :data:`GOOD` and made ``least_trials``, or has nothing left."""
    goal = replay.best / GOOD
    bests: list[float] = []
    best = inf
    while len(bests) < least_trials or best > goal:
        batch = strategy.propose(BATCH)
        if not batch:
            break
        for candidate in batch:
            seconds = replay.seconds_of(candidate.key)
            strategy.tell(candidate, seconds)
            best = min(best, seconds)
            bests.append(best)
    return Curve(tuple(bests))


def compare(
    replay: Replay,
    strategy: Callable[[Space, int], Strategy],
    rival: Callable[[Space, int], Strategy],
    seeds: Sequence[int],
) -> Comparison:
    """Both strategies with every seed on one workload."""
    size = len(replay.space)
    quarter = max(1, size // 4)
    goal = replay.best / GOOD
    ours = [search_curve(replay, strategy(replay.space, seed), quarter) for seed in seeds]
    theirs = [search_curve(replay, rival(replay.space, seed), quarter) for seed in seeds]
    return Comparison(
        replay.workload,
        size,
        replay.best,
        trials=tuple(curve.trials_to(goal) or size for curve in ours),
        random_trials=tuple(curve.trials_to(goal) or size for curve in theirs),
        share=mean(replay.best / curve.after(quarter) for curve in ours),
        random_share=mean(replay.best / curve.after(quarter) for curve in theirs),
    )
