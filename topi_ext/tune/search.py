"""Strategies: which knobs to measure next.

All have the same interface, so that they can be compared: :meth:`Strategy.propose` gives candidates that
were not proposed before, :meth:`Strategy.tell` says how long they took.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, inf
from typing import Protocol

from topi_ext.tune.models.cost_model import CostModel, SharedSamples, load_xgboost
from topi_ext.tune.records.record import knobs_key
from topi_ext.tune.space import Candidate, Space

EXPLORATION = 0.25
"""The share of a batch that does not follow the model."""

NEIGHBOURHOOD = 0.25
"""The share of a batch that lies around the best candidate."""

GROUPS, BEST_GROUPS = 12, 2
""":class:`TileSearch` measures one member of so many groups before it tries other members of the best
ones."""


POPULATION = 24
MUTATION = 0.1
CROSSINGS = 8
"""Options of :class:`GeneticSearch`: how many of the fastest have children, the chance of each knob of a
child to be the one that is another value than its parents', and how many children to draw for each that is
wanted."""

_AROUND_A_TILE = ("order", "rows", "pad_at")
"""Knobs of the loops around a register tile."""


class Strategy(Protocol):
    """Proposes candidates of one space until it has none left."""

    def propose(self, count: int) -> list[Candidate]:
        """Up to ``count`` candidates that are new; none where the space is exhausted."""
        ...

    def tell(self, candidate: Candidate, seconds: float) -> None:
        """How long a candidate took, infinite where it failed; it need not have been proposed."""
        ...


class _Remaining:
    """What has not been proposed or measured yet, in a fixed order."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._left = {candidate.key: candidate for candidate in candidates}

    def __len__(self) -> int:
        return len(self._left)

    def __contains__(self, candidate: Candidate) -> bool:
        return candidate.key in self._left

    def discard(self, candidate: Candidate) -> None:
        self._left.pop(candidate.key, None)

    def take(self, candidates: Iterable[Candidate], count: int) -> list[Candidate]:
        """The first ``count`` of ``candidates`` that are left, which are left no more."""
        taken: list[Candidate] = []
        for candidate in candidates:
            if len(taken) >= count:
                break
            if candidate in self:
                self.discard(candidate)
                taken.append(candidate)
        return taken

    def all(self) -> list[Candidate]:
        return list(self._left.values())

    def shuffled(self, chance: random.Random) -> list[Candidate]:
        return chance.sample(self.all(), len(self))


class _InOrder:
    """Proposes candidates in an order that was fixed beforehand."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._remaining = _Remaining(candidates)

    def propose(self, count: int) -> list[Candidate]:
        """The next ones."""
        return self._remaining.take(self._remaining.all(), count)

    def tell(self, candidate: Candidate, seconds: float) -> None:
        """Only that it need not be measured again."""
        self._remaining.discard(candidate)


class ExhaustiveSearch(_InOrder):
    """Every candidate, the least estimated cycles first."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        super().__init__(space.candidates)


class RandomSearch(_InOrder):
    """Every candidate in a random order, the same for the same seed."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        super().__init__(random.Random(seed).sample(space.candidates, len(space)))


class ModelSearch:
    """What a model predicts to be fast, what lies around the best, and a share of others.

    ``shared`` holds samples of other tasks, for a model that knows something before the first trial. The
    same arguments and the same times give the same proposals.
    """

    def __init__(self, space: Space, *, seed: int = 0, shared: SharedSamples | None = None) -> None:
        self._space = space
        self._remaining = _Remaining(space.candidates)
        self._random = random.Random(seed)
        self._shared = shared or SharedSamples()
        self._samples = self._shared.new()
        self._model = CostModel()
        self._best: tuple[float, Candidate | None] = (inf, None)

    def propose(self, count: int) -> list[Candidate]:
        """A batch; the model is trained on everything that was told before."""
        explored = ceil(count * EXPLORATION) if self._samples else count // 2
        around = ceil(count * NEIGHBOURHOOD) if self._best[1] is not None else 0
        predicted = self._predicted(self._remaining.all())
        place = {candidate.key: position for position, candidate in enumerate(predicted)}
        batch: list[Candidate] = []
        if self._best[1] is not None:
            nearby = [other for other in self._space.neighbours(self._best[1]) if other in self._remaining]
            nearby.sort(key=lambda candidate: place[candidate.key])
            batch += self._remaining.take(nearby, around)
        batch += self._remaining.take(predicted, count - explored - len(batch))
        batch += self._remaining.take(self._by_estimate(), ceil((count - len(batch)) / 2))
        drawn = self._remaining.shuffled(self._random)
        batch += self._remaining.take(drawn, ceil((count - len(batch)) / 2))
        return batch + self._remaining.take(predicted, count - len(batch))

    def tell(self, candidate: Candidate, seconds: float) -> None:
        """Learn from a trial."""
        self._remaining.discard(candidate)
        self._samples.add(self._space.features(candidate), candidate.cycles, seconds)
        if seconds < self._best[0]:
            self._best = seconds, candidate

    def _predicted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        self._model.fit(self._samples, self._shared.others(self._samples))
        features = [self._space.features(candidate) for candidate in candidates]
        scores = self._model.predict(features, [candidate.cycles for candidate in candidates])
        order = sorted(range(len(candidates)), key=lambda position: (scores[position], position))
        return [candidates[position] for position in order]

    def _by_estimate(self) -> list[Candidate]:
        """Those left that look fast by their estimate: it sees what no trial has shown yet."""
        return sorted(self._remaining.all(), key=lambda candidate: candidate.cycles)


class TileSearch:
    """For times that come from a model: kernels with the same register tile, so the same loop, are one group.

    The best of each of the first groups by estimate, then all of the few groups that did best, then the next.
    """

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        groups: dict[str, list[Candidate]] = {}
        for candidate in space.candidates:
            groups.setdefault(_tile_of(candidate), []).append(candidate)
        self._groups = groups
        self._left = _Remaining(space.candidates)
        self._heads = [members[0] for members in groups.values()]
        self._best: dict[str, float] = {}

    def propose(self, count: int) -> list[Candidate]:
        """Heads of groups until :data:`GROUPS` are known, then members of the best."""
        if len(self._best) < min(GROUPS, len(self._groups)):
            return self._left.take(self._heads, count)
        batch: list[Candidate] = []
        for tile in sorted(self._best, key=lambda known: self._best[known])[:BEST_GROUPS]:
            batch += self._left.take(self._groups[tile], count - len(batch))
        return batch + self._left.take(self._heads, count - len(batch))

    def tell(self, candidate: Candidate, seconds: float) -> None:
        """Remember how well the candidate's group does."""
        self._left.discard(candidate)
        tile = _tile_of(candidate)
        self._best[tile] = min(seconds, self._best.get(tile, inf))


class GeneticSearch:
    """Children of the fastest candidates: of each knob the value of one of two parents, or a mutation.

    The first are drawn at random, and so are those that crossing gives no new candidate for. The same seed
    and the same times give the same proposals.
    """

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self._space = space
        self._remaining = _Remaining(space.candidates)
        self._random = random.Random(seed)
        self._told: dict[str, tuple[float, Candidate]] = {}

    def propose(self, count: int) -> list[Candidate]:
        """Children once enough is known, others at random."""
        batch: list[Candidate] = []
        if len(self._told) >= min(POPULATION, len(self._space)):
            fastest = sorted(self._told.values(), key=lambda told: told[0])[:POPULATION]
            parents = [candidate for seconds, candidate in fastest if seconds < inf]
            weights = [1 / seconds for seconds, _ in fastest if seconds < inf]
            batch = self._remaining.take(self._children(parents, weights, CROSSINGS * count), count)
        return batch + self._remaining.take(self._remaining.shuffled(self._random), count - len(batch))

    def tell(self, candidate: Candidate, seconds: float) -> None:
        """The faster it is, the likelier it has children."""
        self._remaining.discard(candidate)
        self._told[candidate.key] = seconds, candidate

    def _children(
        self, parents: Sequence[Candidate], weights: Sequence[float], count: int
    ) -> Iterator[Candidate]:
        for _ in range(count if parents else 0):
            one, other = self._random.choices(parents, weights, k=2)
            child = dict(one.fields)
            if other.fields.keys() == child.keys():
                child = {
                    name: self._random.choice((value, other.fields[name])) for name, value in child.items()
                }
            found = self._space.find(child)
            if found is not None and self._random.random() < MUTATION * len(child):
                found = self._random.choice(self._space.neighbours(found) or [found])
            if found is not None:
                yield found


def _tile_of(candidate: Candidate) -> str:
    return knobs_key({name: value for name, value in candidate.fields.items() if name not in _AROUND_A_TILE})


STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "model": ModelSearch,
    "random": RandomSearch,
    "exhaustive": ExhaustiveSearch,
    "genetic": GeneticSearch,
    "tiles": TileSearch,
}
"""By the names of the command line; each takes a space and a seed."""


def require_packages(strategy: str) -> None:
    """RelayLayoutError that says what to install where a strategy, by its name, needs what is not there."""
    if STRATEGIES[strategy] is ModelSearch:
        load_xgboost()
