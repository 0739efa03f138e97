"""The state of a task during tuning: trials, the best candidate, and the expected gain of more trials."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from topi_ext.family import Machine, Workload, family_of
from topi_ext.tune.models.cost_model import SharedSamples
from topi_ext.tune.options import DEFAULT_OPTIONS, TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.ranking import CONFIRMED, rank_records, ranking_seconds
from topi_ext.tune.records.record import Origin, TuningRecord
from topi_ext.tune.search import STRATEGIES, ModelSearch, Strategy
from topi_ext.tune.space import Candidate, Space

GAIN = 0.99
"""A trial counts as progress if it brings the time of a task below this factor."""

OPTIMISM = 0.3
"""The share of its time that the first batch of trials is expected to save; later batches save less."""

STARTING_POINTS = 6
"""Records of other machines that a task starts from, besides the default."""

_OTHER_SAMPLES = 2000
"""The most trials of other tasks that a cost model learns from."""


@dataclass(frozen=True)
class Task:
    """A workload to tune; ``weight`` counts its uses in the networks."""

    name: str
    workload: Workload
    weight: int = 1


class TaskState:
    """The state of a task.

    ``trials`` counts the candidates measured on this machine, ``stale`` those since the last progress.
    ``checked`` has the keys of candidates whose results were verified. ``origin`` is that of the trials;
    modelled ones need no confirmation.

    The space is computed lazily: that takes up to a second, networks have a hundred tasks, and a tuner with
    little time may never reach most of them.
    """

    def __init__(
        self,
        task: Task,
        processor: Machine,
        database: Database,
        cpu: str,
        *,
        options: TuneOptions = DEFAULT_OPTIONS,
        shared: SharedSamples | None = None,
        origin: Origin = "measured",
    ) -> None:
        self.task = task
        self.finished = False
        self.checked: set[str] = set()
        self.stale = 0
        self._processor, self._database, self._cpu = processor, database, cpu
        self._options, self._shared = options, shared or SharedSamples()
        self._origin = origin
        self._records: list[TuningRecord] = []
        self._seen: set[str] = set()
        self._progress_mark = inf
        self._batches = 0
        self._before_batch = inf
        self._ranked: Sequence[TuningRecord] | None = None
        self._waiting: list[Candidate] | None = None
        for record in database.records(task.workload, processor):
            if record.origin == origin and record.cpu == cpu:
                candidate = self.space.find(record.knobs)
                if candidate is not None:
                    self.tell(candidate, record)

    @cached_property
    def space(self) -> Space:
        """All candidates."""
        return Space(self.task.workload, self._processor, winograd=self._options.winograd)

    @cached_property
    def _strategy(self) -> Strategy:
        return _strategy(self._options.strategy, self._options.seed, self.space, self._shared)

    @cached_property
    def _default_cycles(self) -> float:
        """The estimated cycles of the default knobs, computed without the space."""
        workload = self.task.workload
        return float(family_of(workload).cheapest(workload, self._processor, self._options.winograd)[0])

    @property
    def size(self) -> float:
        """The number of candidates; infinite while the space has not been computed."""
        return len(self.space) if "space" in vars(self) else inf

    def _starting_points(self) -> list[Candidate]:
        """The first candidates: the default, the best on other machines, and the cheapest of each kind."""
        workload, processor = self.task.workload, self._processor
        others = [
            record
            for record in self._database.records(workload, processor)
            if record.origin == "measured" and record.cpu != self._cpu
        ]
        foreign = self._database.of_others(workload, processor)
        # Records of the same CPU model are the most similar.
        foreign.sort(key=lambda record: record.cpu != self._cpu)
        hints = [*rank_records(others), *self._database.inherited(workload, processor), *foreign]
        found = [self.space.find(record.knobs) for record in hints]
        starts = dict.fromkeys([self.space.default, *(hint for hint in found if hint is not None)])
        starts = dict.fromkeys([*[*starts][: 1 + STARTING_POINTS], *self.space.cheapest_of_each_kind])
        return [start for start in starts if start.key not in self._seen]

    @property
    def trials(self) -> int:
        """How many candidates were measured on this machine, including failures."""
        return len(self._seen)

    @property
    def best(self) -> Candidate | None:
        """The fastest candidate, or None."""
        ranked = self._ranking()
        return self.space.find(ranked[0].knobs) if ranked else None

    @property
    def unchecked_best(self) -> Candidate | None:
        """The fastest candidate if its result has not been verified yet."""
        best = self.best
        return None if best is None or best.key in self.checked else best

    @property
    def best_seconds(self) -> float:
        """The time of the fastest candidate in seconds; infinite before the first success."""
        ranked = self._ranking()
        return ranked[0].cost if ranked else inf

    @property
    def default_seconds(self) -> float:
        """The time of the default knobs in seconds; infinite if they were not measured."""
        return self._seconds_of(self.space.default) if self._ranking() else inf

    @property
    def needs_confirmation(self) -> bool:
        """Has the fastest candidate been measured too few times?"""
        ranked = self._ranking() if self._origin == "measured" else ()
        return bool(ranked) and len(ranked[0].seconds) < CONFIRMED

    def to_confirm(self, count: int) -> list[Candidate]:
        """The default and the ``count`` fastest candidates, to be measured again in turns."""
        best = [self.space.find(record.knobs) for record in self._ranking()[:count]]
        found = {
            candidate.key: candidate for candidate in [self.space.default, *best] if candidate is not None
        }
        return list(found.values())

    def propose(self, count: int) -> list[Candidate]:
        """Up to ``count`` candidates to measure next: starting points first, then those of the strategy."""
        if self._waiting is None:
            self._waiting = self._starting_points()
        batch = [candidate for candidate in self._waiting if candidate.key not in self._seen][:count]
        self._waiting = [candidate for candidate in self._waiting if candidate not in batch]
        while len(batch) < count:
            more = self._strategy.propose(count - len(batch))
            if not more:
                break
            keys = {candidate.key for candidate in batch} | self._seen
            batch += [candidate for candidate in more if candidate.key not in keys]
        self._before_batch = self.best_seconds
        self._batches += 1
        return batch

    def tell(self, candidate: Candidate, record: TuningRecord) -> None:
        """Record a trial."""
        self._records.append(record)
        self._ranked = None
        if candidate.key in self._seen:
            return
        self._seen.add(candidate.key)
        self._strategy.tell(candidate, record.cost)
        if record.cost < self._progress_mark * GAIN:
            self._progress_mark = record.cost
            self.stale = 0
        else:
            self.stale += 1

    def expected_gain(self) -> float:
        """Seconds that another batch is expected to save in the networks, by the gain of the last batches."""
        best = self.best_seconds
        if best == inf:
            # Tasks without a time come first, by descending estimate: 1e9 exceeds any gain in seconds.
            return 1e9 + self.task.weight * self._default_cycles
        recent = self._before_batch - best if self._before_batch < inf else 0.0
        batches = max(self._batches, 1)
        return self.task.weight * max(recent / 2, best * OPTIMISM / (batches * batches))

    def _ranking(self) -> Sequence[TuningRecord]:
        if self._ranked is None:
            found = rank_records(self._records)
            self._ranked = sorted(found, key=ranking_seconds)
        return self._ranked

    def _seconds_of(self, candidate: Candidate) -> float:
        for record in self._ranking():
            if self.space.find(record.knobs) is candidate:
                return record.cost
        return inf


def _strategy(name: str, seed: int, space: Space, shared: SharedSamples) -> Strategy:
    if name == "model":
        return ModelSearch(space, seed=seed, shared=shared)
    return STRATEGIES[name](space, seed=seed)


def known_samples(processor: Machine, database: Database, without: Collection[Workload]) -> SharedSamples:
    """The latest measured trials of workloads other than ``without``, as samples for cost models."""
    excluded = set(without)
    by_workload: dict[str, list[TuningRecord]] = {}
    for record in database.of_processor(processor)[-_OTHER_SAMPLES:]:
        ours = record.origin == "measured" and record.threads == processor.threads
        if ours and record.workload not in excluded:
            by_workload.setdefault(record.workload.to_json(), []).append(record)
    shared = SharedSamples()
    for records in by_workload.values():
        space = Space(records[0].workload, processor)
        samples = shared.new()
        for record in records:
            candidate = space.estimated(record.knobs)
            if candidate is not None:
                samples.add(space.features(candidate), candidate.cycles, record.cost)
    return shared
