"""Where tensors lie in memory."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any


def place_of(tensor: Any, item_bytes: int | None = None) -> range:
    """The addresses of a contiguous tensor of TVM's.

    ``item_bytes`` are those of an element; to ask the tensor takes longer than all else.
    """
    begin = tensor.data_ptr()
    return range(begin, begin + tensor.numel() * (item_bytes or tensor.dtype.itemsize))


class Places:
    """Ranges of addresses, of which it is found out at once whether any meets another."""

    def __init__(self, places: Iterable[range] = ()) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, end in sorted([(place.start, place.stop) for place in places if place]):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

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
