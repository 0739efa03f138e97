"""The cost of the transforms of one tensor, as a function of its state (:mod:`.state`)."""

from collections.abc import Sequence

from relay_layout.choice.state import State, orders_in, read_in, written_in


class TransformCosts:
    """The costs, in microseconds, of the transforms of one tensor.

    ``table[written][read]`` is the cost from one memory order to another.

    A tensor is transformed once for each order in which it is read and not written, however many readers
    that has, and always from the order in which it was written.
    """

    def __init__(self, table: Sequence[Sequence[float]]) -> None:
        self.table = tuple(map(tuple, table))
        self._totals: dict[State, float] = {}
        self._increases: dict[tuple[State, State, int], float] = {}

    def single(self, written: int, read: int) -> float:
        """The cost of one transform; 0 if both orders are the same."""
        return self.table[written][read] if written != read else 0.0

    def total(self, state: State) -> float:
        """The cost of all transforms in ``state``; the least possible one if it has no written order yet."""
        if state not in self._totals:
            written = written_in(state)
            reads = orders_in(read_in(state))
            writers = [written] if written >= 0 else range(len(self.table))
            self._totals[state] = min(sum(self.single(order, read) for read in reads) for order in writers)
        return self._totals[state]

    def max_increase(self, old: State, new: State, readable: int) -> float:
        """The most by which replacing ``old`` by ``new`` can raise the cost, whatever other operators read.

        ``readable`` has a bit for every order that any operator may read. The difference is a sum over the
        orders, and each of its terms depends only on whether another operator reads that order.
        """
        key = old, new, readable
        if key not in self._increases:
            self._increases[key] = sum(
                self._increase_for(order, old, new, readable) for order in range(len(self.table))
            )
        return self._increases[key]

    def _increase_for(self, order: int, old: State, new: State, readable: int) -> float:
        was, now = written_in(old), written_in(new)
        before, after = read_in(old) >> order & 1, read_in(new) >> order & 1
        if was < 0 or now < 0:
            # The written order is decided by another group.
            highest = max(self.single(written, order) for written in range(len(self.table)))
            return highest if after and not before else 0.0
        cost_old, cost_new = self.single(was, order), self.single(now, order)
        alone = after * cost_new - before * cost_old
        return max(alone, cost_new - cost_old) if readable >> order & 1 else alone
