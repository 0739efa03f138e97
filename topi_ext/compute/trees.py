"""Decision trees: the leaf that each row of features comes to in each tree of a forest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import by_threads_where, variable, written

LEAF = -1
"""The kind of a node that compares nothing."""

PARALLEL_STEPS = 1 << 11
"""Comparisons that threads share: fewer take as long as it takes to wake one."""

TOGETHER = 16
"""Leaves that are looked for at once: each step waits for what it reads, others' steps meanwhile do not."""


@dataclass(frozen=True)
class Nodes:
    """The nodes of all trees, M in number.

    ``features``, ``thresholds`` and ``kinds`` (M,) say what each compares, and ``successors`` (M, 2) which
    node follows where that does not hold, and where it does. A kind is the number of a comparison, to which
    the number of all comparisons is added where a feature that is no number is taken to hold; of leaves it is
    :data:`LEAF`, and follow themselves. All are int32 but for thresholds, which are of the features' type.
    """

    features: te.Tensor
    thresholds: te.Tensor
    kinds: te.Tensor
    successors: te.Tensor


Comparison = Callable[[Any, Any], Any]
"""A comparison of a feature with a threshold."""


def leaves(
    data: te.Tensor, roots: te.Tensor, nodes: Nodes, comparisons: Sequence[Comparison], depth: int
) -> te.Tensor:
    """The leaves, (N, T) of int64, that rows (N, C) of floats come to in trees with ``roots`` (T,) of int32.

    ``comparisons`` are those that kinds number; ``depth`` of them lead to any leaf.
    """
    count, trees = data.shape[0], int(roots.shape[0])
    of_row = max(trees, 1)

    def descend(
        data: Any, roots: Any, features: Any, thresholds: Any, kinds: Any, successors: Any, result: Any
    ) -> None:
        ends = count * trees

        def of_group(group: Any) -> None:
            value, holds = variable(str(data.dtype)), variable()
            together = [variable() for _ in range(TOGETHER)]
            # Those behind the last one do as it does.
            places = [tirx.min(group * TOGETHER + number, ends - 1) for number in range(TOGETHER)]
            rows = [variable("int64") for _ in places]
            for node, row, place in zip(together, rows, places, strict=True):
                node[0] = roots[place % of_row]
                row[0] = place // of_row
            with T.While(reduce(tirx.bitwise_and, (kinds[node[0]] for node in together)) != LEAF):
                for node, row in zip(together, rows, strict=True):
                    value[0] = data[row[0], features[node[0]]]
                    holds[0] = _holds(value[0], thresholds[node[0]], kinds[node[0]], comparisons)
                    node[0] = successors[node[0], holds[0]]
            for node, place in zip(together, places, strict=True):
                result[place // of_row, place % of_row] = node[0].astype("int64")

        def of_groups(loop: Callable[..., Any]) -> None:
            with loop(0, (ends + (TOGETHER - 1)) // TOGETHER) as group:
                of_group(group)

        steps = ends * max(depth, 1)
        by_threads_where(steps >= tirx.const(PARALLEL_STEPS, "int64"), of_groups)

    inputs = [data, roots, nodes.features, nodes.thresholds, nodes.kinds, nodes.successors]
    return written("leaves", inputs, [((count, trees), "int64")], descend)


def _holds(value: Any, threshold: Any, kind: Any, comparisons: Sequence[Comparison]) -> Any:
    """Whether a comparison of that kind holds, as an int32."""
    found = comparisons[-1](value, threshold)
    for number in range(len(comparisons) - 1):
        is_this = tirx.Or(kind == number, kind == number + len(comparisons))
        found = tirx.Select(is_this, comparisons[number](value, threshold), found)
    is_missing = tirx.And(kind >= len(comparisons), tirx.isnan(value))
    return tirx.Or(found, is_missing).astype("int32")
