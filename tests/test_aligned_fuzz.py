"""Random networks as random backends want them compute what they computed, and what is wrong is refused.

A failure prints a call of `tests.aligned_graphs.check`, already cut down to the steps that fail.
"""

import pytest

from tests import aligned_graphs
from tests.fuzzing import chunks, failures

SLICE = range(0, 3)
"""Seeds of every run: seconds, most of them in TVM's compiler."""

SWEEP = range(1000, 1400)
"""Seeds of the slow sweep."""


def test_a_slice_of_networks() -> None:
    found = failures(aligned_graphs.fuzzed, SLICE)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", chunks(SWEEP, 25), ids=str)
def test_four_hundred_networks(seeds: range) -> None:
    found = failures(aligned_graphs.fuzzed, seeds)
    assert not found, "\n".join(found)


def test_a_failure_is_cut_down_to_a_one_line_reproducer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_from_two_steps(seed: int, steps: int) -> None:
        if steps >= 2:
            raise ValueError("differs\nby much")

    monkeypatch.setattr(aligned_graphs, "check", fails_from_two_steps)
    message = aligned_graphs.failure(7, 9)
    assert message == "tests.aligned_graphs.check(7, 2): ValueError: differs by much"
