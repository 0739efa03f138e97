"""Where tensors lie in memory."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any


def place_of(tensor: Any) -> range:
    """The addresses of a contiguous tensor of TVM's."""
    begin = tensor.data_ptr()
    return range(begin, begin + tensor.numel() * tensor.dtype.itemsize)


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

    def add(self, place: range) -> None:
        """One more, which meets none of them."""
        if place:
            index = bisect_left(self._begins, place.start)
            self._begins.insert(index, place.start)
            self._ends.insert(index, place.stop)

    def meet(self, place: range) -> bool:
        """Whether any of them has an address of ``place``."""
        last = bisect_left(self._begins, place.stop) - 1
        return last >= 0 and bool(place) and self._ends[last] > place.start
