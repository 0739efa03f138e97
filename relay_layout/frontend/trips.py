"""How many operations the trips of loops are written out to, one after another."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from relay_layout.errors import ModelError

MOST_NODES = 20_000
"""Operations that all trips of the loops of one model are written out to at most."""

SEARCHED = 2_000
"""The same of one loop for which no number of trips is known, and which may end by itself before."""


class LeftAsLoop(ModelError):
    """Trips that are not to be written out."""


class TooMany(LeftAsLoop):
    """More operations than there may be."""


class MayNotEnd(LeftAsLoop):
    """A trip that may not be due would run a loop, of which nobody knows whether it ends then."""


@dataclass
class WrittenOut:
    """Counts the operations of trips that were written out so far, of which there may be ``most``."""

    label: str
    operations: int = 0
    most: int = MOST_NODES

    @contextmanager
    def at_most(self, operations: int) -> Iterator[None]:
        """So many may be written out more; what was, is forgotten where the trips stay a loop."""
        most, begun = self.most, self.operations
        self.most = min(most, begun + operations)
        try:
            yield
        except LeftAsLoop:
            self.operations = begun
            raise
        finally:
            self.most = most

    def add(self, operations: int) -> None:
        """Count the operations of a trip."""
        self.operations += operations
        if self.operations > self.most:
            raise TooMany(f"{self.label}: more than {self.most} nodes of trips")
