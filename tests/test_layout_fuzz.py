"""Random graphs converted to random layouts compute what they computed before.

A failure prints a call of `tests.layout_graphs.check`, already cut down to the steps that fail.
"""

from itertools import product

import pytest
from tvm import relax

from tests import layout_graphs
from tests.fuzzing import chunks, failures

SLICE = range(0, 36)
"""Seeds of every run: most of a minute of one core."""

SWEEP = range(1000, 3000)
"""Seeds of the slow sweep."""

CHUNK = 25


@pytest.mark.parametrize("seeds", chunks(SLICE, CHUNK), ids=str)
def test_a_slice_of_graphs(seeds: range) -> None:
    found = failures(layout_graphs.fuzzed, seeds)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", chunks(SWEEP, CHUNK), ids=str)
def test_two_thousand_graphs(seeds: range) -> None:
    found = failures(layout_graphs.fuzzed, seeds)
    assert not found, "\n".join(found)


def test_a_failure_is_cut_down_to_a_one_line_reproducer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_from_three_steps(seed: int, steps: int, layout: str) -> None:
        if steps >= 3:
            raise ValueError("differs")

    monkeypatch.setattr(layout_graphs, "check", fails_from_three_steps)
    message = layout_graphs.failure(7, 9, "NHWC")
    assert message == "tests.layout_graphs.check(7, 3, 'NHWC'): ValueError: differs"


@pytest.mark.parametrize("rank", range(6))
def test_steps_for_any_rank_fit_or_decline(rank: int) -> None:
    for seed, (step, ranks, _) in product(range(12), layout_graphs.STEPS):
        if ranks is not None:
            continue
        graph = layout_graphs.Graph(seed)
        value = relax.Var("value", relax.TensorType((2, 3, 4, 1, 2)[:rank], "float32"))
        graph.values.append(value)
        with graph.builder.function("main", [value]):
            expression = step(graph, value)
            if expression is not None:
                graph.builder.emit(expression)
            graph.builder.emit_func_output(value)


def test_steps_of_a_shorter_graph_are_the_beginning_of_a_longer_one() -> None:
    def operators(steps: int) -> list[str]:
        main = layout_graphs.random_module(11, steps)["main"]
        bindings = [binding for block in main.body.blocks for binding in block.bindings]
        return [str(binding.value.op) for binding in bindings if hasattr(binding.value, "op")]

    shorter, longer = operators(4), operators(9)
    assert longer[: len(shorter)] == shorter
