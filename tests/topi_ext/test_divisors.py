"""Divisors, against trying all numbers."""

import pytest

from topi_ext.divisors import divisors


@pytest.mark.parametrize("number", [1, 2, 7, 12, 36, 49, 97, 720])
def test_all_divisors_rise(number: int) -> None:
    assert list(divisors(number)) == [count for count in range(1, number + 1) if number % count == 0]


def test_those_of_a_large_extent_are_found_without_trying_all_numbers() -> None:
    assert divisors(40000 * 40000)[-2:] == (40000 * 20000, 40000 * 40000)
