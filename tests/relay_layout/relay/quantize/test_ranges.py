"""Ranges that lose little."""

import numpy as np
import pytest

from relay_layout.relay.quantize.ranges import Histogram, Range, positive_range, symmetric_range


def rounded(values: np.ndarray, kept: Range) -> np.ndarray:
    integers = np.clip(np.rint(values / kept.scale) + kept.zero_point, kept.low, kept.high)
    return (integers - kept.zero_point) * kept.scale


def test_of_what_is_spread_evenly_everything_is_kept() -> None:
    values = np.linspace(-3, 3, 5001)
    histogram = Histogram()
    histogram.add(values)
    kept = histogram.best_range(8)
    assert (kept.zero_point, kept.low, kept.high) == (0, -127, 127)
    assert kept.scale == pytest.approx(3 / 127, rel=1e-2)


def test_what_is_never_negative_has_all_integers() -> None:
    histogram = Histogram()
    histogram.add(np.linspace(0, 5, 4001))
    kept = histogram.best_range(8)
    assert (kept.zero_point, kept.low, kept.high) == (-128, -128, 127)
    assert kept.scale == pytest.approx(5 / 255, rel=1e-2)


@pytest.mark.parametrize("bits", [4, 8])
def test_an_element_far_from_all_others_is_cut_off_where_that_loses_less(bits: int) -> None:
    values = np.append(np.random.default_rng(0).standard_normal(200_000), 60.0)
    histogram = Histogram()
    histogram.add(values)
    ranges = (histogram.best_range(bits), symmetric_range(60.0, bits))
    losses = [float(((rounded(values, kept) - values) ** 2).sum()) for kept in ranges]
    assert losses[0] < 0.8 * losses[1]


def test_the_order_of_batches_does_not_matter() -> None:
    batches = [np.random.default_rng(place).standard_normal(999) * 10.0**place for place in range(4)]
    found = []
    for order in (batches, batches[::-1]):
        histogram = Histogram()
        for batch in order:
            histogram.add(batch)
        assert histogram.counts.sum() == 4 * 999
        found.append(histogram.best_range(8).scale)
    assert found[0] == pytest.approx(found[1], rel=0.05)


def test_of_zeros_and_of_nothing_there_is_a_range() -> None:
    histogram = Histogram()
    histogram.add(np.zeros(0))
    histogram.add(np.zeros(7))
    assert histogram.best_range(8) == positive_range(1.0, 8)


def test_infinities_are_refused() -> None:
    with pytest.raises(ValueError, match="no finite number"):
        Histogram().add(np.array([1.0, np.inf]))
