"""The matrices of Winograd's convolution, on their own."""

from fractions import Fraction

import numpy as np
import pytest

from topi_ext.winograd import INTEGER_POINTS, POINTS, Matrix, transform_weight, winograd_matrices


def array(matrix: Matrix) -> np.ndarray:
    return np.array(matrix, dtype=object)


@pytest.mark.parametrize("tile", POINTS)
def test_the_matrices_compute_a_convolution_exactly(tile: int) -> None:
    """In fractions, so without rounding; of one axis, which two axes repeat."""
    matrices = winograd_matrices(tile)
    rng = np.random.default_rng(tile)
    signal = [Fraction(int(value)) for value in rng.integers(-9, 9, matrices.extent)]
    kernel = [Fraction(int(value)) for value in rng.integers(-9, 9, 3)]
    products = (array(matrices.kernel) @ kernel) * (array(matrices.data) @ signal)
    expected = [sum(signal[at + tap] * kernel[tap] for tap in range(3)) for at in range(tile)]
    assert list(array(matrices.result) @ products) == expected


@pytest.mark.parametrize("tile", INTEGER_POINTS)
def test_whole_numbers_compute_a_multiple_of_the_convolution(tile: int) -> None:
    matrices = winograd_matrices(tile, integers=True)
    for matrix in (matrices.data, matrices.kernel, matrices.result):
        assert all(value.denominator == 1 for row in matrix for value in row)
    rng = np.random.default_rng(tile)
    signal, kernel = rng.integers(0, 256, matrices.extent), rng.integers(-128, 128, 3)
    products = (array(matrices.kernel) @ kernel) * (array(matrices.data) @ signal)
    expected = [matrices.scale * (signal[at : at + 3] @ kernel) for at in range(tile)]
    assert list(array(matrices.result) @ products) == expected


@pytest.mark.parametrize("tile", INTEGER_POINTS)
def test_bytes_are_int16_in_its_domain(tile: int) -> None:
    """The largest sums of absolute values of a row, twice, as there are two axes."""
    matrices = winograd_matrices(tile, integers=True)
    for matrix, largest in ((matrices.data, 255), (matrices.kernel, 128)):
        assert largest * max(sum(map(abs, row)) for row in matrix) ** 2 <= np.iinfo("int16").max


def test_integers_lie_in_pairs_of_inputs() -> None:
    weight = np.random.default_rng(0).integers(-128, 128, (8, 6, 3, 3)).astype("int8")
    spread = transform_weight(weight, 4, 4, places_first=True, word=2)
    assert (spread.shape, spread.dtype) == ((36, 2, 3, 4, 2), "int16")
    kernel = array(winograd_matrices(4, integers=True).kernel).astype("int64")
    expected = kernel @ weight[5, 3].astype("int64") @ kernel.T
    np.testing.assert_array_equal(spread[:, 1, 1, 1, 1], expected.reshape(-1))


@pytest.mark.parametrize("tile", POINTS)
def test_groups_hold_every_column_once(tile: int) -> None:
    matrices = winograd_matrices(tile)
    for groups in (matrices.data_groups, matrices.result_groups):
        assert sorted(column for group in groups for column in group) == list(range(matrices.extent))


@pytest.mark.parametrize("tile", POINTS)
def test_rows_share_the_sums_of_a_group(tile: int) -> None:
    """Scaled to a last coefficient of one, the rows of a matrix have few different groups."""
    matrices = winograd_matrices(tile)
    pairs = (matrices.extent - 2) // 2
    for matrix, groups, most in (
        (matrices.data, matrices.data_groups, 2 * (pairs + 1)),
        (matrices.result, matrices.result_groups, 2 * pairs + 2),
    ):
        found = set()
        for row in matrix:
            for group in groups:
                used = [column for column in group if row[column]]
                found.add((group, tuple(row[column] / row[used[-1]] for column in group)) if used else ())
        assert len(found - {()}) <= most


def test_weights_lie_as_the_products_read_them() -> None:
    weight = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype("float32")
    spread = transform_weight(weight, 2, 4, places_first=True)
    kernel = array(winograd_matrices(2).kernel).astype("float64")
    assert spread.shape == (16, 2, 3, 4)
    expected = kernel @ weight[5, 1].astype("float64") @ kernel.T
    np.testing.assert_allclose(spread[:, 1, 1, 1], expected.reshape(-1), rtol=1e-6, atol=1e-7)
    other = transform_weight(weight, 2, 4, places_first=False)
    np.testing.assert_array_equal(other, spread.transpose(1, 0, 2, 3))
