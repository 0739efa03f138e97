"""The state of a tensor under one choice: the memory order it is written in, and the set of orders it is read
in.

A state is an int, so that the states of several choices combine by bitwise or.
"""

from collections.abc import Sequence

_WRITTEN_BITS = 16
"""Far more than the orders of a tensor (:data:`relay_layout.choice.candidates.MOST_LAYOUTS`) need."""

_WRITTEN_MASK = (1 << _WRITTEN_BITS) - 1

State = int
"""Written order plus one in the low bits, 0 for none; above them a bit for each order read."""


def state_of(written: int | None, read: Sequence[int] = ()) -> State:
    """The state with the order ``written``, if any, and the orders ``read``."""
    mask = 0
    for order in read:
        mask |= 1 << order
    return mask << _WRITTEN_BITS | (0 if written is None else written + 1)


def written_in(state: State) -> int:
    """The written order; -1 if there is none."""
    return (state & _WRITTEN_MASK) - 1


def read_in(state: State) -> int:
    """A bit mask of the orders read."""
    return state >> _WRITTEN_BITS


def orders_in(mask: int) -> list[int]:
    """The orders whose bits ``mask`` sets, ascending."""
    return [order for order in range(mask.bit_length()) if mask >> order & 1]


def narrowed(state: State, fixed: State) -> State:
    """``state`` without the reads that ``fixed`` makes free: those of an order that it reads or writes
    already.
    """
    written = (state | fixed) & _WRITTEN_MASK
    free = fixed >> _WRITTEN_BITS
    if written:
        free |= 1 << (written - 1)
    return state & ~(free << _WRITTEN_BITS)
