"""Decision trees: the leaf that each row of features comes to in each tree of a forest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import by_threads_where, variable, written

LEAF = -1
"""The kind of a node that compares nothing."""

PARALLEL_STEPS = 1 << 11
"""Comparisons that threads share: fewer take as long as it takes to wake one."""


@dataclass(frozen=True)
class Nodes:
    """The nodes of all trees, M in number.

    ``features``, ``thresholds`` and ``kinds`` (M,) say what each compares, and ``successors`` (M, 2) which
    node follows where that does not hold, and where it does. A kind is the number of a comparison, to which
    the number of all comparisons is added where a feature that is no number is taken to hold; of leaves it is
    :data:`LEAF`. All are int32 but for thresholds, which are of the features' type.
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
    count, trees = data.shape[0], roots.shape[0]

    def descend(
        data: Any, roots: Any, features: Any, thresholds: Any, kinds: Any, successors: Any, result: Any
    ) -> None:
        def of_row(row: Any) -> None:
            node, value, holds = variable(), variable(str(data.dtype)), variable()
            with T.serial(0, trees) as tree:
                node[0] = roots[tree]
                with T.While(kinds[node[0]] != LEAF):
                    value[0] = data[row, features[node[0]]]
                    holds[0] = _holds(value[0], thresholds[node[0]], kinds[node[0]], comparisons)
                    node[0] = successors[node[0], holds[0]]
                result[row, tree] = node[0].astype("int64")

        def of_rows(loop: Callable[..., Any]) -> None:
            with loop(0, count) as row:
                of_row(row)

        steps = count * trees * max(depth, 1)
        by_threads_where(steps >= tirx.const(PARALLEL_STEPS, "int64"), of_rows)

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
