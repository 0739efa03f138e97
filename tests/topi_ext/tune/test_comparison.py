"""Replaying strategies on a log of all kernels."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from topi_ext.machine.processor import Processor
from topi_ext.tune.comparison import Curve, compare, replays, search_curve
from topi_ext.tune.records.record import TuningRecord
from topi_ext.tune.search import ExhaustiveSearch, ModelSearch, RandomSearch, Strategy
from topi_ext.tune.space import Candidate, Space
from topi_ext.workloads.convolution import ConvolutionWorkload

MakeRecord = Callable[..., TuningRecord]


@pytest.fixture
def records(
    workload: ConvolutionWorkload,
    processor: Processor,
    make_record: MakeRecord,
    seconds_of: Callable[..., float],
) -> list[TuningRecord]:
    candidates = Space(workload, processor).candidates
    return [make_record(seconds_of(dict(one.fields)), knobs=dict(one.fields)) for one in candidates]


def test_a_log_becomes_a_space_with_times(
    records: list[TuningRecord], processor: Processor, make_record: MakeRecord
) -> None:
    half = len(records) // 2
    failed = make_record(error="run: no", knobs=records[half].knobs)
    foreign = [
        make_record(1e-9, threads=1),
        make_record(1e-9, origin="inherited"),
        make_record(1e-9, knobs={}),
    ]
    (replay,) = replays([*records[:half], failed, *foreign], processor)
    assert replay.coverage == (half + 1) / len(records)
    assert replay.best == min(record.cost for record in records[:half])


def test_the_fullest_space_comes_first(
    records: list[TuningRecord], processor: Processor, squares: Callable[..., ConvolutionWorkload]
) -> None:
    other = [replace(record, workload=squares(64, 14)) for record in records[:10]]
    found = replays([*other, *records], processor)
    assert [replay.workload for replay in found] == [records[0].workload, squares(64, 14)]


class Backwards:
    """Proposes the worst estimates first."""

    def __init__(self, space: Space) -> None:
        self._left = list(space.candidates)

    def propose(self, count: int) -> list[Candidate]:
        found, self._left = self._left[::-1][:count], self._left[:-count]
        return found

    def tell(self, candidate: Candidate, seconds: float) -> None:
        pass


def test_a_curve_knows_when_it_was_good_enough(records: list[TuningRecord], processor: Processor) -> None:
    by_rank = [
        replace(record, seconds=(float(rank),))
        for rank, record in enumerate(sorted_by_estimate(records, processor), 1)
    ]
    (replay,) = replays(by_rank, processor)
    forwards = search_curve(replay, ExhaustiveSearch(replay.space), least_trials=3)
    assert forwards.trials_to(replay.best / 0.95) == 1
    assert len(forwards.bests) == 8
    backwards = search_curve(replay, Backwards(replay.space), least_trials=3)
    assert backwards.trials_to(replay.best / 0.95) == len(records)


def sorted_by_estimate(records: Sequence[TuningRecord], processor: Processor) -> list[TuningRecord]:
    space = Space(records[0].workload, processor)
    places = {candidate.key: place for place, candidate in enumerate(space.candidates)}

    def place(record: TuningRecord) -> int:
        found = space.find(record.knobs)
        assert found is not None
        return places[found.key]

    return sorted(records, key=place)


def test_after_the_end_of_a_curve_its_best_stays() -> None:
    curve = Curve((3.0, 2.0, 2.0))
    assert [curve.after(count) for count in (1, 2, 9)] == [3.0, 2.0, 2.0]
    assert curve.trials_to(1.0) is None


def test_strategies_are_compared_at_equal_trials(records: list[TuningRecord], processor: Processor) -> None:
    (replay,) = replays(records, processor)

    def ours(space: Space, seed: int) -> Strategy:
        return ModelSearch(space, seed=seed)

    def chance(space: Space, seed: int) -> Strategy:
        return RandomSearch(space, seed=seed)

    found = compare(replay, ours, chance, range(3))
    assert found.size == len(records)
    assert found.is_quick
    assert found.beats_random
    same = compare(replay, chance, chance, range(3))
    assert same.share == same.random_share
