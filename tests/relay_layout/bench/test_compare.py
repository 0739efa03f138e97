"""The relative error of outputs."""

from __future__ import annotations

import numpy as np
import pytest

from relay_layout.bench.compare import relative_error

REFERENCE = [np.array([1.0, -4.0], np.float32)]


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([np.array([1.0, -4.0])], 0.0),
        ([np.array([1.0, -3.0])], 0.25),
        ([np.array([1.0, np.nan])], None),
        ([np.array([1.0, np.inf])], None),
        ([np.array([[1.0, -4.0]])], None),
        ([], None),
    ],
)
def test_relative_to_the_largest_value(outputs: list[np.ndarray], expected: float | None) -> None:
    assert relative_error(outputs, REFERENCE) == expected


def test_the_worst_output_counts() -> None:
    reference = [np.array([1.0]), np.array([2.0])]
    assert relative_error([np.array([1.0]), np.array([1.0])], reference) == 0.5


def test_unsigned_integers_do_not_wrap_around() -> None:
    assert relative_error([np.array([1], np.uint8)], [np.array([2], np.uint8)]) == 0.5


def test_a_reference_of_zeros() -> None:
    zeros = [np.zeros(3, np.float32)]
    assert relative_error(zeros, zeros) == 0.0
    error = relative_error([np.full(3, 1e-3, np.float32)], zeros)
    assert error is not None and error > 1
    assert np.isfinite(error)


def test_empty_outputs_agree() -> None:
    assert relative_error([np.zeros((0, 4))], [np.zeros((0, 4))]) == 0.0
