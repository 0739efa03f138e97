"""The state of a tensor, as far as one choice decides it: an int, so that states combine by bitwise or.

It holds the order that the choice writes the tensor in, and the set of orders that the choice reads it in.
"""

from collections.abc import Sequence

_WRITTEN_BITS = 16
_WRITTEN_MASK = (1 << _WRITTEN_BITS) - 1

State = int
"""Written order plus one in the low bits, 0 for none; above them a bit for each order read."""


def state_of(written: int | None, read: Sequence[int] = ()) -> State:
    """The state with that order written and those read."""
    mask = 0
    for order in read:
        mask |= 1 << order
    return mask << _WRITTEN_BITS | (0 if written is None else written + 1)


def written_in(state: State) -> int:
    """The order written, -1 for none."""
    return (state & _WRITTEN_MASK) - 1


def read_in(state: State) -> int:
    """A bit for each order read."""
    return state >> _WRITTEN_BITS


def orders_in(mask: int) -> list[int]:
    """The orders whose bits are set."""
    return [order for order in range(mask.bit_length()) if mask >> order & 1]


def narrowed(state: State, fixed: State) -> State:
    """``state`` without the reads that cost nothing beside ``fixed``: of an order written or read there."""
    written = (state | fixed) & _WRITTEN_MASK
    free = fixed >> _WRITTEN_BITS
    if written:
        free |= 1 << (written - 1)
    return state & ~(free << _WRITTEN_BITS)
