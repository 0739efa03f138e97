"""Strategies: what they propose, and that the learned one finds good kernels sooner."""

import random
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from topi_ext.machine.processor import Processor
from topi_ext.spaces.convolution import cheapest
from topi_ext.tune.search import ExhaustiveSearch, GeneticSearch, ModelSearch, RandomSearch, Strategy
from topi_ext.tune.space import Space
from topi_ext.workloads.convolution import ConvolutionWorkload

Seconds = Callable[..., float]
ALL = (ModelSearch, RandomSearch, ExhaustiveSearch, GeneticSearch)


@pytest.fixture
def space(workload: ConvolutionWorkload, processor: Processor) -> Space:
    return Space(workload, processor)


def best_after(strategy: Strategy, trials: int, seconds: Callable[[dict[str, Any]], float]) -> float:
    best = inf
    while trials > 0:
        batch = strategy.propose(min(8, trials))
        if not batch:
            break
        trials -= len(batch)
        for candidate in batch:
            found = seconds(dict(candidate.fields))
            strategy.tell(candidate, found)
            best = min(best, found)
    return best


@pytest.mark.parametrize("strategy", ALL)
def test_every_candidate_is_proposed_once(strategy: type[Any], space: Space, seconds_of: Seconds) -> None:
    search = strategy(space)
    found = []
    while batch := search.propose(16):
        found += [candidate.key for candidate in batch]
        for candidate in batch:
            search.tell(candidate, seconds_of(dict(candidate.fields)))
    assert sorted(found) == sorted(candidate.key for candidate in space.candidates)


@pytest.mark.parametrize("strategy", ALL)
def test_what_was_measured_before_is_not_proposed(strategy: type[Any], space: Space) -> None:
    search = strategy(space)
    known = space.candidates[:5]
    for candidate in known:
        search.tell(candidate, 1.0)
    proposed = search.propose(len(space))
    assert len(proposed) == len(space) - 5
    assert not {candidate.key for candidate in known} & {candidate.key for candidate in proposed}


@pytest.mark.parametrize("strategy", [ModelSearch, RandomSearch, GeneticSearch])
def test_a_seed_decides_everything(strategy: type[Any], space: Space) -> None:
    def keys(seed: int) -> list[str]:
        return [candidate.key for candidate in strategy(space, seed=seed).propose(12)]

    assert keys(1) == keys(1)
    assert keys(1) != keys(2)


def test_exhaustive_search_begins_with_the_best_estimates(space: Space) -> None:
    assert ExhaustiveSearch(space).propose(4) == list(space.candidates[:4])


def test_a_batch_is_as_large_as_asked_while_there_is_something_left(space: Space) -> None:
    search = ModelSearch(space)
    for count in (1, 3, 8, 17):
        batch = search.propose(count)
        assert len(batch) == count
        for place, candidate in enumerate(batch):
            search.tell(candidate, 1.0 + place)


@pytest.mark.parametrize("strategy", [ModelSearch, GeneticSearch])
def test_failures_are_no_obstacle(strategy: type[Any], space: Space) -> None:
    search = strategy(space)
    for _ in range(4):
        for candidate in search.propose(8):
            search.tell(candidate, inf)
    assert len(search.propose(8)) == 8


@pytest.mark.parametrize(("strategy", "trials"), [(ModelSearch, 40), (GeneticSearch, 120)])
def test_searches_that_learn_beat_random_search(
    strategy: type[Any],
    trials: int,
    squares: Callable[..., ConvolutionWorkload],
    processor: Processor,
    seconds_of: Seconds,
) -> None:
    ours, theirs = [], []
    for seed in range(6):
        space = Space(squares(64, 28), processor)
        # No help from the estimate: all candidates look alike to both.
        costs = {candidate.key: seconds_of(dict(candidate.fields), seed) for candidate in space.candidates}
        best = min(costs.values())

        def seconds(knobs: dict[str, Any], seed: int = seed) -> float:
            return seconds_of(knobs, seed)

        ours.append(best / best_after(strategy(space, seed=seed), trials, seconds))
        theirs.append(best / best_after(RandomSearch(space, seed=seed), trials, seconds))
    assert sum(ours) > sum(theirs) + 6 * 0.02
    assert min(ours) > 0.85


def test_neighbours_differ_in_one_knob(space: Space) -> None:
    candidate = random.Random(0).choice(space.candidates)
    neighbours = space.neighbours(candidate)
    assert neighbours
    for other in neighbours:
        different = [name for name, value in candidate.fields.items() if other.fields[name] != value]
        assert len(different) == 1


@pytest.mark.parametrize("winograd", [True, False])
def test_the_default_is_what_compilation_takes(
    winograd: bool, squares: Callable[..., ConvolutionWorkload], processor: Processor
) -> None:
    workload = squares(64, 28)
    space = Space(workload, processor, winograd=winograd)
    assert space.default.knobs == cheapest(workload, processor, winograd)[1]
    algorithms = {candidate.fields["algorithm"] for candidate in space.candidates}
    assert algorithms == ({"direct", "winograd"} if winograd else {"direct"})
