"""Divisors of extents, by which loops are split."""

from functools import lru_cache
from math import isqrt


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """All divisors of a number of at least 1, in ascending order."""
    lower = [count for count in range(1, isqrt(number) + 1) if number % count == 0]
    upper = [number // count for count in reversed(lower) if count * count != number]
    return (*lower, *upper)


def largest_divisor(extent: int, most: int) -> int:
    """The largest divisor of ``extent`` that is at most ``most``; both are at least 1."""
    return max(size for size in range(1, min(extent, most) + 1) if extent % size == 0)
