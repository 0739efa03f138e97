"""What the transforms of one tensor cost, as states have it."""

from collections.abc import Sequence

from relay_layout.choice.state import State, orders_in, read_in, written_in


class TransformCosts:
    """Microseconds of the transforms of one tensor: ``table[written][read]``, from and to each order.

    A tensor is transformed once for each order in which it is read and not written, however many readers
    that has, and always from the order in which it was written.
    """

    def __init__(self, table: Sequence[Sequence[float]]) -> None:
        self.table = tuple(map(tuple, table))
        self._of: dict[State, float] = {}
        self._more: dict[tuple[State, State, int], float] = {}

    def between(self, written: int, read: int) -> float:
        """Of one transform; 0 where both orders are the same."""
        return self.table[written][read] if written != read else 0.0

    def of(self, state: State) -> float:
        """Of all transforms in a state; before its tensor is written, what they come to at least."""
        if state not in self._of:
            written = written_in(state)
            reads = orders_in(read_in(state))
            writers = [written] if written >= 0 else range(len(self.table))
            self._of[state] = min(sum(self.between(order, read) for read in reads) for order in writers)
        return self._of[state]

    def more(self, old: State, new: State, readable: int) -> float:
        """How much more at most the transforms cost with ``new`` in the place of ``old``.

        ``readable`` has a bit for every order that something may read: whatever else is read, the difference
        is a sum over the orders, each of which is read by others as well, or is not.
        """
        key = old, new, readable
        if key not in self._more:
            self._more[key] = sum(
                self._more_of(order, old, new, readable) for order in range(len(self.table))
            )
        return self._more[key]

    def _more_of(self, order: int, old: State, new: State, readable: int) -> float:
        was, now = written_in(old), written_in(new)
        before, after = read_in(old) >> order & 1, read_in(new) >> order & 1
        if was < 0 or now < 0:
            # Whoever writes the tensor is not known.
            dearest = max(self.between(written, order) for written in range(len(self.table)))
            return dearest if after and not before else 0.0
        of_old, of_new = self.between(was, order), self.between(now, order)
        alone = after * of_new - before * of_old
        return max(alone, of_new - of_old) if readable >> order & 1 else alone


__all__ = ["TransformCosts"]
