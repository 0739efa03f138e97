"""Leaves of decision trees, beside a walk in Python."""

import math
import operator
from typing import Any

import numpy as np
import pytest
from kernel_harness import Array, compile_function, host_cpus, run_function, target_for
from tvm import te, tirx

from topi_ext.compute.trees import LEAF, PARALLEL_STEPS, Nodes, leaves

TARGET = target_for(host_cpus()[-1])
RANDOM = np.random.default_rng(2)
COMPARISONS = [operator.le, operator.gt]
FEATURES = 5


def forest(trees: int, depth: int) -> dict[str, Array]:
    """Trees whose nodes at one depth are all there; the leaves follow themselves."""
    of_one = 2 ** (depth + 1) - 1
    own, inner = np.arange(of_one), 2**depth - 1
    kinds = np.where(own < inner, RANDOM.integers(0, 2 * len(COMPARISONS), (trees, of_one)), LEAF)
    both = np.stack([2 * own + 1, 2 * own + 2], 1)
    ways = np.where((own < inner)[:, None], both, own[:, None])
    return {
        "roots": np.arange(trees) * of_one,
        "features": RANDOM.integers(0, FEATURES, trees * of_one),
        "thresholds": RANDOM.standard_normal(trees * of_one),
        "kinds": kinds.reshape(-1),
        "successors": (ways + of_one * np.arange(trees)[:, None, None]).reshape(-1, 2),
    }


def walked(row: Array, node: int, nodes: dict[str, Array]) -> int:
    while (kind := nodes["kinds"][node]) != LEAF:
        value = row[nodes["features"][node]]
        holds = COMPARISONS[kind % len(COMPARISONS)](value, nodes["thresholds"][node])
        holds = holds or (kind >= len(COMPARISONS) and math.isnan(value))
        node = nodes["successors"][node, int(holds)]
    return node


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("trees", "depth"), [(1, 0), (1, 3), (7, 4)])
@pytest.mark.parametrize("rows", [1, 9, PARALLEL_STEPS // 28 + 1])
def test_each_row_comes_to_a_leaf_of_each_tree(dtype: str, trees: int, depth: int, rows: int) -> None:
    nodes = forest(trees, depth)
    nodes["thresholds"] = nodes["thresholds"].astype(dtype)
    data = RANDOM.standard_normal((rows, FEATURES)).astype(dtype)
    data[RANDOM.random(data.shape) < 0.2] = np.nan
    arrays: list[Any] = [data, *(one.astype("int32") if one.dtype == int else one for one in nodes.values())]
    tensors = [te.placeholder(array.shape, str(array.dtype)) for array in arrays]
    tensors[0] = te.placeholder((tirx.Var("n", "int64"), FEATURES), dtype)
    found = leaves(tensors[0], tensors[1], Nodes(*tensors[2:]), COMPARISONS, depth)
    function = compile_function(te.create_prim_func([*tensors, found]), TARGET)
    (result,) = run_function(function, arrays, [((rows, trees), "int64")])
    np.testing.assert_array_equal(
        result, [[walked(row, root, nodes) for root in nodes["roots"]] for row in data]
    )
