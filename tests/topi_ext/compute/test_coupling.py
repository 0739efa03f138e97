"""Probabilities of classes from those of pairs, beside what the least sum of squares has."""

from typing import Any

import numpy as np
import pytest
from kernel_harness import Array, compile_function, host_cpus, run_function, target_for
from tvm import te, tirx

from topi_ext.compute.coupling import TOLERANCE, coupled

TARGET = target_for(host_cpus()[-1])
RANDOM = np.random.default_rng(6)


def pairs_of(rows: int, classes: int) -> Array:
    """Of each class against each other one; both of a pair sum to 1."""
    above = np.triu(RANDOM.uniform(0.02, 0.98, (rows, classes, classes)), 1)
    below = np.tril(1 - above.transpose(0, 2, 1), -1)
    return np.asarray(above + below, "float32")


def best(pairs: Array) -> Array:
    """The solution of the linear equations of the least sum, and of the sum of all being 1."""
    classes = len(pairs)
    form = -pairs.T * pairs
    np.fill_diagonal(form, (pairs.astype("float64") ** 2).sum(0))
    equations = np.ones((classes + 1, classes + 1))
    equations[:classes, :classes], equations[-1, -1] = form, 0
    return np.asarray(np.linalg.solve(equations, np.eye(classes + 1)[-1])[:-1])


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_probabilities_agree_best_with_those_of_pairs(classes: int) -> None:
    pairs: Any = pairs_of(9, classes)
    placeholder = te.placeholder((tirx.Var("n", "int64"), classes, classes), "float32")
    function = compile_function(te.create_prim_func([placeholder, *coupled(placeholder)]), TARGET)
    shape = (9, classes)
    result, *_ = run_function(
        function, [pairs], [(shape, "float32"), (pairs.shape, "float32"), (shape, "float32")]
    )
    np.testing.assert_allclose(result.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(result, [best(row) for row in pairs], atol=10 * TOLERANCE / classes)
