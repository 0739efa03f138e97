"""Random graphs of as many elements as the data say compute what ONNX Runtime computes.

A failure prints a call of `tests.counted_graphs.check`.
"""

import pytest

from tests import counted_graphs
from tests.fuzzing import chunks, failures

SLICE = range(0, 30)
"""Seeds of every run: about half a minute of one core."""

SWEEP = range(1000, 1500)
"""Seeds of the slow sweep."""

CHUNK = 10


@pytest.mark.parametrize("seeds", chunks(SLICE, CHUNK), ids=str)
def test_a_slice_of_graphs(seeds: range) -> None:
    found = failures(counted_graphs.fuzzed, seeds)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", chunks(SWEEP, CHUNK), ids=str)
def test_five_hundred_graphs(seeds: range) -> None:
    found = failures(counted_graphs.fuzzed, seeds)
    assert not found, "\n".join(found)


def test_graphs_have_counts_that_differ() -> None:
    """Most graphs have an extent that only the data say, and not all of them the same."""
    texts = [str(counted_graphs.random_model(seed).graph) for seed in SLICE]
    assert all("NonZero" in text for text in texts)
    assert sum("TopK" in text for text in texts) > len(texts) // 6
    assert len(set(texts)) == len(texts)
