"""Bounds of the sizes of inputs while a graph is read, which arithmetic of extents takes for granted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from tvm import tirx


class Interval(NamedTuple):
    """The numbers from ``least`` to ``most``, or all from there on where that is None."""

    least: int
    most: int | None

    def within(self, other: "Interval") -> "Interval":
        """The numbers of both."""
        ends = [end for end in (self.most, other.most) if end is not None]
        return Interval(max(self.least, other.least), min(ends, default=None))


ANY = Interval(0, None)

_KNOWN: ContextVar[Mapping[tirx.Var, Interval] | None] = ContextVar("known_sizes", default=None)


@contextmanager
def known_sizes(intervals: Mapping[tirx.Var, Interval]) -> Iterator[None]:
    """Take for granted that sizes lie in their intervals."""
    token = _KNOWN.set(intervals)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def known_interval(size: tirx.Var) -> Interval:
    """What is known of a size; :data:`ANY` where nothing is."""
    return (_KNOWN.get() or {}).get(size, ANY)
