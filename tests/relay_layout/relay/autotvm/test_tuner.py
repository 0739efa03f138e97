"""Tuners: how much they measure, and what they tell of it."""

from typing import Any

import pytest

from relay_layout.errors import InputError
from relay_layout.relay.autotvm.measure import MeasureInput, MeasureResult
from relay_layout.relay.autotvm.record import pair
from relay_layout.relay.autotvm.task import Task
from relay_layout.relay.autotvm.tuner import (
    GATuner,
    GridSearchTuner,
    RandomTuner,
    Tuner,
    XGBTuner,
)
from topi_ext.tune.records.record import knobs_key

TUNERS = [XGBTuner, GATuner, RandomTuner, GridSearchTuner]


class Kept:
    """A callback that keeps what it is told."""

    def __init__(self) -> None:
        self.pairs: list[tuple[MeasureInput, MeasureResult]] = []
        self.finished = 0

    def __call__(self, tuner: Tuner, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
        self.pairs += zip(inputs, results, strict=True)

    @property
    def tried(self) -> list[str]:
        return list(dict.fromkeys(knobs_key(given.config.knobs) for given, _ in self.pairs))

    def finish(self) -> None:
        self.finished += 1


@pytest.mark.parametrize("kind", TUNERS)
def test_so_many_kernels_are_measured(kind: Any, tasks: list[Task], option: Any) -> None:
    kept, tuner = Kept(), kind(tasks[0])
    tuner.tune(n_trial=12, measure_option=option, callbacks=[kept])
    assert len(kept.tried) == 12
    assert kept.finished == 1
    costs = [sum(result.costs) / len(result.costs) for _, result in kept.pairs]
    assert tuner.best_flops == pytest.approx(tasks[0].flop / min(costs))
    assert knobs_key(tuner.best_config.knobs) == kept.tried[tuner.best_iter]


def test_options_of_autotvms_own_searches_are_taken(tasks: list[Task]) -> None:
    XGBTuner(tasks[0], loss_type="rank", feature_type="knob")
    GATuner(tasks[0], pop_size=50)


def test_it_ends_early_where_nothing_gets_faster(tasks: list[Task], option: Any) -> None:
    kept = Kept()
    GridSearchTuner(tasks[0]).tune(100, option, early_stopping=5, callbacks=[kept])
    assert 6 <= len(kept.tried) < 100


def test_what_was_measured_before_is_not_measured_again(tasks: list[Task], option: Any) -> None:
    before, after = Kept(), Kept()
    GridSearchTuner(tasks[0]).tune(5, option, callbacks=[before])
    tuner = GridSearchTuner(tasks[0])
    tuner.load_history(pair(given.record) for given, _ in before.pairs)
    tuner.tune(5, option, callbacks=[after])
    assert len(set(before.tried)) == 5
    new = [key for key in after.tried if key not in before.tried]
    assert len(new) == 5


def test_a_short_history_may_be_left_out(tasks: list[Task], option: Any) -> None:
    before = Kept()
    GridSearchTuner(tasks[0]).tune(5, option, callbacks=[before])
    tuner, after = GridSearchTuner(tasks[0]), Kept()
    tuner.load_history(before.pairs, min_seed_records=500)
    tuner.tune(5, option, callbacks=[after])
    assert after.tried == before.tried


def test_failures_are_told_and_are_not_best(tasks: list[Task], option: Any, made_up: Any) -> None:
    first = tasks[0].config_space.get(0)
    made_up.broken.add(knobs_key(first.knobs))
    kept, tuner = Kept(), GridSearchTuner(tasks[0])
    tuner.tune(2, option, callbacks=[kept])
    failed = {result[:2] for given, result in kept.pairs if given.config.knobs == first.knobs}
    assert failed == {(("run: longer than 20 s",), 7)}
    assert tuner.best_config.knobs != first.knobs


def test_the_best_is_one_whose_result_is_right(tasks: list[Task], option: Any, made_up: Any) -> None:
    tuner = GridSearchTuner(tasks[0])
    tuner.tune(8, option)
    wrong = tuner.best_config
    made_up.wrongs[knobs_key(wrong.knobs)] = "result: differs"
    tuner.reset()
    assert tuner.best_config is None and tuner.best_flops == 0 and tuner.best_iter == 0
    tuner.tune(8, option)
    assert tuner.best_config not in (None, wrong)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"n_trial": 0}, "tune: n_trial is 0; at least one kernel is measured"),
        (
            {"n_trial": 1, "measure_option": {}},
            "tune: measure_option is what autotvm.measure_option(builder=..., runner=...) gives, not a dict",
        ),
    ],
)
def test_what_cannot_be_tuned_with(
    arguments: dict[str, Any], reason: str, tasks: list[Task], option: Any
) -> None:
    with pytest.raises(InputError) as caught:
        RandomTuner(tasks[0]).tune(**{"measure_option": option, **arguments})
    assert str(caught.value) == reason


def test_parts_of_spaces_are_refused(tasks: list[Task]) -> None:
    with pytest.raises(InputError, match=r"^range_idx: a part of a space cannot be tuned alone; leave"):
        RandomTuner(tasks[0], range_idx=(0, 4))
