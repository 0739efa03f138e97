"""Orthogonal factors and columns of matrices, also of such as lack ranks, beside numpy's."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_harness import compile_function, host_cpus, run_function, target_for
from tvm import te

from topi_ext.compute.orthogonal import orthogonal_columns, orthogonal_factors

TARGET = target_for(host_cpus()[-1])
RANDOM = np.random.default_rng(0)
SHAPES = pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (5, 3), (3, 5)])


def matrices(rows: int, columns: int) -> np.ndarray:
    """Matrices of full rank, of rank 0 and of rank 1."""
    drawn = RANDOM.standard_normal((4, rows, columns))
    drawn[2] = 0
    drawn[3] = drawn[3, :, :1]
    return drawn


def computed(
    compute: Callable[[te.Tensor], list[te.Tensor]], data: np.ndarray, *shapes: tuple[int, ...]
) -> list[np.ndarray]:
    given = te.placeholder(data.shape, "float64")
    function = compile_function(te.create_prim_func([given, *compute(given)]), TARGET)
    return run_function(function, [data], [(shape, "float64") for shape in shapes])


@SHAPES
def test_factors(rows: int, columns: int) -> None:
    data = matrices(rows, columns)
    left, upper = computed(orthogonal_factors, data, (4, rows, rows), data.shape)
    np.testing.assert_allclose(left @ upper, data, atol=1e-12)
    np.testing.assert_allclose(left @ left.swapaxes(1, 2), np.tile(np.eye(rows), (4, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(upper[:2], np.linalg.qr(data[:2], "complete")[1], atol=1e-12)


@SHAPES
def test_columns(rows: int, columns: int) -> None:
    data = matrices(rows, columns)
    shapes = ((4, columns, rows), (4, columns), (4, columns, columns))
    rotated, lengths, turns = computed(orthogonal_columns, data, *shapes)
    np.testing.assert_allclose(data @ turns.swapaxes(1, 2), rotated.swapaxes(1, 2), atol=1e-12)
    np.testing.assert_allclose(turns @ turns.swapaxes(1, 2), np.tile(np.eye(columns), (4, 1, 1)), atol=1e-12)
    few = min(rows, columns)
    np.testing.assert_allclose(lengths[:, :few], np.linalg.svd(data)[1], atol=1e-12)
    np.testing.assert_allclose(lengths[:, few:], 0, atol=1e-12)
