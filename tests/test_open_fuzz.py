"""Random graphs of images of any size compute what ONNX Runtime computes, or refuse a size.

A failure prints a call of `tests.open_graphs.check`.
"""

import pytest

from tests import open_graphs
from tests.fuzzing import chunks, failures

SLICE = range(0, 30)
"""Seeds of every run: about half a minute of one core."""

SWEEP = range(1000, 1500)
"""Seeds of the slow sweep."""

CHUNK = 10


@pytest.mark.parametrize("seeds", chunks(SLICE, CHUNK), ids=str)
def test_a_slice_of_graphs(seeds: range) -> None:
    found = failures(open_graphs.fuzzed, seeds)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", chunks(SWEEP, CHUNK), ids=str)
def test_five_hundred_graphs(seeds: range) -> None:
    found = failures(open_graphs.fuzzed, seeds)
    assert not found, "\n".join(found)


def test_graphs_fit_sizes() -> None:
    """Most are compared, some at all sizes and some at those that fit alone."""
    compared = [open_graphs.check(seed) for seed in range(12)]
    assert sum(count > 0 for count in compared) >= 8
    assert len(set(compared)) > 2
