"""What is known of operators and transforms: layouts and names are texts, times microseconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TransformFact:
    """A transform left to run: of tensor ``value``, shared by ``readers`` ("output": it is returned).

    ``priced`` says where the time comes from: "measured" just so, "fitted" to measured transforms of other
    extents, or "modelled" from the bytes that it moves.
    """

    value: str
    source: str
    target: str
    bytes: int
    microseconds: float
    priced: str
    readers: tuple[str, ...]


@dataclass(frozen=True)
class OperatorFact:
    """One operator: its chosen layouts, and why it has no other where that is worth saying.

    ``index`` counts the operators of the function, ``transforms`` are those of its operands. ``kind`` is how
    it came by its layouts: "chosen" where it names them, "follows" where it takes those around it, "keeps
    its own" where it was not converted. ``reason`` is "" for operators that were converted as asked, and for
    those with nothing converted around them.
    """

    index: int
    name: str
    operator: str
    kind: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    microseconds: float
    transforms: tuple[TransformFact, ...]
    reason: str


@dataclass(frozen=True)
class Alternative:
    """One way in which an operator could run.

    ``more_us`` and ``more_transforms`` are what the whole function would cost more if the operator ran this
    way and the rest were chosen anew for it; None where the time for that was spent before.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    microseconds: float
    chosen: bool
    more_us: float | None
    more_transforms: int | None


@dataclass(frozen=True)
class Obstacle:
    """A layout that a neighbour could write or read, and why the operator cannot have it there."""

    value: str
    layout: str
    reason: str
