"""Weights as kernels store them."""

import numpy as np
import pytest

from topi_ext.weights import fill_vectors, merge_groups


def test_zeros_follow_the_outputs() -> None:
    weight = np.arange(1, 11, dtype="float32").reshape(5, 2)
    filled = fill_vectors(weight, 1, 4)
    assert filled.shape == (8, 2)
    np.testing.assert_array_equal(filled[:5], weight)
    assert not filled[5:].any()


def test_each_group_ends_in_zeros() -> None:
    weight = np.arange(1, 13, dtype="float32").reshape(6, 2)
    filled = fill_vectors(weight, 2, 4)
    assert filled.shape == (2, 4, 2)
    np.testing.assert_array_equal(filled[:, :3].reshape(6, 2), weight)
    assert not filled[:, 3:].any()


@pytest.mark.parametrize(("outputs", "lanes"), [(8, 4), (16, 16)])
def test_full_vectors_stay(outputs: int, lanes: int) -> None:
    weight = np.ones((outputs, 3), "float32")
    np.testing.assert_array_equal(fill_vectors(weight, 1, lanes), weight)


def test_merged_groups_have_zeros_between_them() -> None:
    weight = np.arange(1, 9, dtype="float32").reshape(4, 2, 1, 1)
    merged = merge_groups(weight, 4, 2)[:, :, 0, 0]
    np.testing.assert_array_equal(merged, [[1, 2, 0, 0], [0, 0, 3, 4], [5, 6, 0, 0], [0, 0, 7, 8]])
