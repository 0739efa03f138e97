"""Divisors of extents, which loops are cut by."""

from functools import lru_cache
from math import isqrt


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """All of them, rising; of a number of at least 1."""
    lower = [count for count in range(1, isqrt(number) + 1) if number % count == 0]
    upper = [number // count for count in reversed(lower) if count * count != number]
    return (*lower, *upper)


def largest_divisor(extent: int, most: int) -> int:
    """Of ``extent``, at most ``most``."""
    return max(size for size in range(1, min(extent, most) + 1) if extent % size == 0)


__all__ = ["divisors", "largest_divisor"]
