"""Where arrays lie in memory."""

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np


def address(array: np.ndarray) -> int:
    """That of an array's first element."""
    return int(array.__array_interface__["data"][0])


def place_of(array: np.ndarray) -> range:
    """The addresses of a contiguous array."""
    begin = address(array)
    return range(begin, begin + array.nbytes)


class Places:
    """Ranges of addresses, of which it is found out at once whether any meets another."""

    def __init__(self, places: Iterable[range] = ()) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for place in sorted(filter(None, places), key=lambda place: place.start):
            if self._ends and place.start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], place.stop)
            else:
                self._begins.append(place.start)
                self._ends.append(place.stop)

    def meet(self, place: range) -> bool:
        """Whether any of them has an address of ``place``."""
        last = bisect_left(self._begins, place.stop) - 1
        return last >= 0 and bool(place) and self._ends[last] > place.start


__all__ = ["Places", "address", "place_of"]
