"""The cost model: it learns, it is the same each time, and it says what it needs."""

import sys
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest

from topi_ext.errors import RelayLayoutError
from topi_ext.machine.processor import Processor
from topi_ext.tune.models.cost_model import CostModel, Samples, SharedSamples
from topi_ext.tune.models.features import knob_features, workload_features
from topi_ext.tune.space import Space
from topi_ext.workloads.convolution import ConvolutionWorkload

Seconds = Callable[..., float]
Squares = Callable[..., ConvolutionWorkload]


def samples_of(space: Space, seconds: Callable[[dict[str, Any]], float], step: int) -> Samples:
    samples = Samples()
    for candidate in space.candidates[::step]:
        samples.add(space.features(candidate), candidate.cycles, seconds(dict(candidate.fields)))
    return samples


def agreement(model: CostModel, space: Space, seconds: Callable[[dict[str, Any]], float]) -> float:
    """The correlation of predicted and true order."""
    candidates = space.candidates
    predicted = model.predict(
        [space.features(candidate) for candidate in candidates], [one.cycles for one in candidates]
    )
    true = [seconds(dict(candidate.fields)) for candidate in candidates]
    ranks = [np.argsort(np.argsort(values)) for values in (predicted, true)]
    return float(np.corrcoef(ranks)[0, 1])


def test_the_model_learns_from_a_part_of_the_space(
    squares: Squares, processor: Processor, seconds_of: Seconds
) -> None:
    space = Space(squares(64, 28), processor)
    model = CostModel()
    before = agreement(model, space, seconds_of)
    model.fit(samples_of(space, seconds_of, 5))
    assert agreement(model, space, seconds_of) > max(0.9, before)


def test_the_model_learns_from_other_tasks(
    squares: Squares, processor: Processor, seconds_of: Seconds
) -> None:
    space, other = Space(squares(64, 28), processor), Space(squares(128, 28), processor)
    cold, warm = CostModel(), CostModel()
    warm.fit(Samples(), [samples_of(other, seconds_of, 2)])
    assert agreement(warm, space, seconds_of) > agreement(cold, space, seconds_of) + 0.2


def test_without_samples_the_estimate_decides(workload: ConvolutionWorkload, processor: Processor) -> None:
    space = Space(workload, processor)
    model = CostModel()
    model.fit(Samples())
    features = [space.features(candidate) for candidate in space.candidates]
    predicted = model.predict(features, [candidate.cycles for candidate in space.candidates])
    assert list(np.argsort(predicted, kind="stable")) == list(range(len(space)))


def test_the_same_samples_give_the_same_model(
    squares: Squares, processor: Processor, seconds_of: Seconds
) -> None:
    space = Space(squares(32, 14), processor)
    features = [space.features(candidate) for candidate in space.candidates]
    cycles = [candidate.cycles for candidate in space.candidates]
    found = []
    for _ in range(2):
        model = CostModel()
        model.fit(samples_of(space, seconds_of, 3))
        found.append(model.predict(features, cycles))
    assert np.array_equal(*found)


def test_a_failure_is_worse_than_all_that_ran(processor: Processor, squares: Squares) -> None:
    space = Space(squares(64, 28), processor)

    def seconds(knobs: dict[str, Any]) -> float:
        return inf if knobs["order"] == "channels" else 1e-3

    model = CostModel()
    model.fit(samples_of(space, seconds, 1))
    candidates = [candidate for candidate in space.candidates if candidate.fields["algorithm"] == "direct"]
    predicted = model.predict(
        [space.features(candidate) for candidate in candidates], [1.0] * len(candidates)
    )
    failed = np.array([candidate.fields["order"] == "channels" for candidate in candidates])
    assert np.median(predicted[failed]) > np.median(predicted[~failed]) + 0.5


def test_shared_samples_are_those_of_others() -> None:
    shared = SharedSamples()
    mine, other = shared.new(), shared.new()
    assert shared.others(mine) == [other]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(RelayLayoutError) as caught:
        CostModel()
    assert str(caught.value) == (
        "tuning with a model needs xgboost: pip install 'relay-layout[tune]', or choose another strategy"
    )


def test_features_are_finite_numbers(squares: Squares, processor: Processor) -> None:
    for workload in (squares(16, 7), squares(64, 56, 1)):
        space = Space(workload, processor)
        for candidate in space.candidates:
            assert all(np.isfinite(value) for value in space.features(candidate).values())


def test_features_tell_what_a_tile_needs(workload: ConvolutionWorkload, processor: Processor) -> None:
    knobs = {"lanes": 16, "tile_pixels": 7, "tile_channels": 2, "order": "pixels", "rows": 2}
    found = knob_features(workload, processor, knobs, 1024.0)
    assert found["accumulators"] == 14
    assert found["registers_left"] == 32 - 14 - 2
    assert found["loads_per_fma"] == 9 / 14
    assert found["log_cycles"] == 10
    assert found["order=pixels"] == 1
    assert 2 ** found["log_chunks_per_thread"] == 7 / 2
    assert workload_features(workload)["log_in_channels"] == 5
