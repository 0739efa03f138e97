"""Powers of floats, against the mathematical library in float64."""

import numpy as np
import pytest
from kernel_harness import binary_results

from topi_ext.compute.powers import power

SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, -2, 3, -3, 1e30, 1e-45], "float32")


def expected(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.power(base.astype("float64"), exponent.astype("float64")).astype("float32")


@pytest.mark.parametrize("largest", [0.5, 3.0, 150.0])
def test_values(largest: float) -> None:
    """Of bases of every exponent and beside one; results are off by less than one place of the last digit."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(1, 0x7F800000, 5000).astype("uint32").view("float32")
    base = np.concatenate([patterns, rng.normal(1, 0.01, 2000), rng.uniform(0, 4, 1001)]).astype("float32")
    exponent = rng.uniform(-largest, largest, base.size).astype("float32")
    np.testing.assert_array_max_ulp(binary_results(power, base, exponent), expected(base, exponent), 1)


def test_special_numbers() -> None:
    base, exponent = (side.reshape(-1) for side in np.meshgrid(SPECIAL, SPECIAL))
    found, wanted = binary_results(power, base, exponent), expected(base, exponent)
    np.testing.assert_array_equal(found, wanted)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(wanted)[known])


def test_whole_exponents_of_negative_numbers() -> None:
    """From 2**24 on all are even."""
    exponent = np.array([3, 4, 5, 1.5, 16777215, 16777216, -7, -8, 33554432, 2.5], "float32")
    base = np.where(np.abs(exponent) > 100, -1.0000001, -1.7).astype("float32")
    np.testing.assert_allclose(binary_results(power, base, exponent), expected(base, exponent), rtol=1e-7)


def test_broadcast() -> None:
    base, exponent = np.linspace(0.1, 9, 37, dtype="float32")[:, None], np.array([2.2, -1], "float32")
    np.testing.assert_array_max_ulp(binary_results(power, base, exponent), expected(base, exponent), 1)
