"""Factors of matrices, whose products are the matrices again, and what is solved by them."""

import numpy as np
import pytest
from kernel_harness import compile_function, host_cpus, run_function, target_for
from tvm import te

from topi_ext.compute.factors import (
    cholesky_factors,
    lower_upper_factors,
    solutions_of_factors,
    triangular_solutions,
)

TARGET = target_for(host_cpus()[-1])
SIZES = pytest.mark.parametrize("size", [1, 2, 5])
RANDOM = np.random.default_rng(0)


@SIZES
def test_solutions(size: int) -> None:
    data, columns = te.placeholder((4, size, size), "float32"), te.placeholder((4, size, 3), "float32")
    factors, rows, singular = lower_upper_factors(data)
    found = solutions_of_factors(factors, rows, columns)
    function = compile_function(te.create_prim_func([data, columns, singular, found]), TARGET)
    matrices, right = (
        RANDOM.standard_normal(one).astype("float32") for one in ((4, size, size), (4, size, 3))
    )
    outputs = [((4,), "int32"), ((4, size, 3), "float32")]
    told, solved = run_function(function, [matrices, right], outputs)
    assert not told.any()
    np.testing.assert_allclose(solved, np.linalg.solve(matrices, right), rtol=1e-3, atol=1e-4)


def test_a_pivot_that_is_zero() -> None:
    data = te.placeholder((1, 3, 3), "float32")
    function = compile_function(te.create_prim_func([data, *lower_upper_factors(data)]), TARGET)
    matrix = np.array([[[1, 2, 0], [2, 4, 1], [0, 0, 1]]], "float32")
    outputs = [((1, 3, 3), "float32"), ((1, 3), "int32"), ((1,), "int32")]
    _, rows, told = run_function(function, [matrix], outputs)
    assert (rows[0, 0], told[0]) == (2, 2)


@SIZES
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangles(size: int, upper: bool, unit: bool) -> None:
    data, columns = te.placeholder((4, size, size), "float32"), te.placeholder((4, size, 3), "float32")
    found = triangular_solutions(upper, unit)(data, columns)
    function = compile_function(te.create_prim_func([data, columns, found]), TARGET)
    matrices, right = (
        RANDOM.uniform(0.5, 1, one).astype("float32") for one in ((4, size, size), (4, size, 3))
    )
    (solved,) = run_function(function, [matrices, right], [((4, size, 3), "float32")])
    triangle = (np.triu if upper else np.tril)(matrices)
    if unit:
        triangle[:, range(size), range(size)] = 1
    np.testing.assert_allclose(triangle @ solved, right, rtol=1e-3, atol=1e-4)


@SIZES
def test_cholesky(size: int) -> None:
    data = te.placeholder((4, size, size), "float32")
    function = compile_function(te.create_prim_func([data, *cholesky_factors(data)]), TARGET)
    roots = RANDOM.standard_normal((4, size, size)).astype("float32")
    matrices = roots @ roots.swapaxes(1, 2) + np.eye(size, dtype="float32")
    matrices[3, 0, 0] = -1
    found, told = run_function(function, [matrices], [(matrices.shape, "float32"), ((4,), "int32")])
    assert told.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(found[:3], np.linalg.cholesky(matrices[:3]), rtol=1e-3, atol=1e-4)
