"""Remainders of floats, against numpy's, which are exact."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_harness import binary_results, host_cpus, target_for

from topi_ext.compute.remainders import floored_remainder, remainder

SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3.5, -7, 1e-45, 3.4e38, -3.4e38], "float32")


def random_floats(seed: int, number: int = 20001) -> np.ndarray:
    """Of every exponent and sign."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, number).astype("uint32")
    return bits.view("float32")


def floored(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        rest = np.fmod(dividend, divisor)
        return np.where((rest != 0) & ((rest < 0) != (divisor < 0)), rest + divisor, rest)


KINDS = pytest.mark.parametrize(
    ("compute", "wanted"), [(remainder, np.fmod), (floored_remainder, floored)], ids=["truncated", "floored"]
)


@KINDS
@pytest.mark.filterwarnings("ignore:invalid value")
def test_quotients_of_any_size(compute: Callable, wanted: Callable) -> None:
    dividend, divisor = random_floats(0), random_floats(1)
    # Multiples, and what is next to them.
    whole = (np.round(dividend[:999] % 97) * np.float32(0.1)).astype("float32")
    near = np.nextafter(whole, np.float32(np.inf))
    dividend = np.concatenate([dividend, whole, near, -near])
    divisor = np.concatenate([divisor, np.full(3 * whole.size, 0.1, "float32")])
    np.testing.assert_array_equal(binary_results(compute, dividend, divisor), wanted(dividend, divisor))


@KINDS
@pytest.mark.filterwarnings("ignore:invalid value")
def test_special_numbers(compute: Callable, wanted: Callable) -> None:
    dividend, divisor = (side.reshape(-1) for side in np.meshgrid(SPECIAL, SPECIAL))
    np.testing.assert_array_equal(binary_results(compute, dividend, divisor), wanted(dividend, divisor))


def test_a_remainder_of_zero_has_the_sign_of_the_dividend() -> None:
    dividend = np.array([-6, 6, -0.0, 0.0], "float32")
    found = binary_results(remainder, dividend, np.full(4, 3, "float32"))
    np.testing.assert_array_equal(np.signbit(found), [True, False, True, False])


@pytest.mark.parametrize("cpu", [None, *host_cpus()])
def test_other_processors(cpu: str | None) -> None:
    """Multiply-adds round once on those, too, that have no instruction for them."""
    dividend, divisor = random_floats(2, 999), random_floats(3, 999)
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(dividend, divisor)
    np.testing.assert_array_equal(binary_results(remainder, dividend, divisor, target_for(cpu)), wanted)


def test_broadcast() -> None:
    dividend, divisor = np.linspace(-9, 9, 37, dtype="float32")[:, None], np.array([2.25, -0.7], "float32")
    found = binary_results(remainder, dividend, divisor)
    np.testing.assert_array_equal(found, np.fmod(dividend, divisor))
