"""Divisors, against trying all numbers."""

import pytest

from topi_ext.divisors import divisors, largest_divisor


@pytest.mark.parametrize("number", [1, 2, 7, 12, 36, 49, 97, 720])
def test_all_divisors_rise(number: int) -> None:
    assert list(divisors(number)) == [count for count in range(1, number + 1) if number % count == 0]


def test_those_of_a_large_extent_are_found_without_trying_all_numbers() -> None:
    assert divisors(40000 * 40000)[-2:] == (40000 * 20000, 40000 * 40000)


@pytest.mark.parametrize(("most", "largest"), [(1, 1), (7, 6), (12, 12), (35, 18), (36, 36), (99, 36)])
def test_the_largest_divisor_up_to_a_limit(most: int, largest: int) -> None:
    assert largest_divisor(36, most) == largest
