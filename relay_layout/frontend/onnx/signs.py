"""Integers whose bounds are known: indices found by an operator, or counted, which need no second look."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relay_layout.frontend.extents.arithmetic import simplify
from relay_layout.frontend.extents.residues import never_more
from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.values import Extents, Value
from relay_layout.ir import Extent

_NATURAL = {"ArgMax": 0, "ArgMin": 0, "NonMaxSuppression": 0, "NonZero": 0, "TopK": 1}
"""Which output of an operator holds indices that count from the front."""

MOVES = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Split", "Squeeze"}
    | {"Tile", "Transpose", "Unsqueeze"}
)
"""Operators whose results hold elements of their first input, or of all inputs of a concatenation, alone."""

_PARTS = frozenset({"Concat", "Gather", "GatherND", "Slice", "Split"})
"""Those of them whose results may lack the largest element of their first input, or have a larger one."""


class Signs:
    """Which values of one graph are known to hold no negative numbers, and where those of a range end."""

    def __init__(self) -> None:
        self._natural: ByIdentity[Value, bool] = ByIdentity()
        self._end: ByIdentity[Value, Extent] = ByIdentity()

    def note(self, operator: str, inputs: Sequence[Value], results: Sequence[Any]) -> None:
        """What is known of the results of a node, in order."""
        if operator in _NATURAL:
            found = results[_NATURAL[operator] :][:1]
        elif operator in MOVES:
            moved = inputs if operator == "Concat" else inputs[:1]
            found = results if all(map(self.is_natural, moved)) else []
            end = None if operator in _PARTS else self.end(inputs[0])
            if end is not None:
                self._end[results[0]] = end
        elif operator == "Range":
            found = results if self._counts(inputs, results[0]) else []
        else:
            found = []
        for value in found:
            if value is not None:
                self._natural[value] = True

    def is_natural(self, value: Value) -> bool:
        """Whether a value holds no negative numbers, as far as is known."""
        if isinstance(value, np.ndarray):
            return _are_integers(value) and bool((value >= 0).all())
        return isinstance(value, Extents) or value in self._natural

    def end(self, value: Value) -> Extent | None:
        """What is one more than the largest number of a value, where a range of one by one made it."""
        return self._end.get(value)

    def _counts(self, ends: Sequence[Value], result: Value) -> bool:
        """Whether a range of these ends has no negative number; notes where it ends."""
        if not all(isinstance(value, Extents) or _are_integers(value) for value in ends):
            return False
        start, limit, step = map(_number, ends)
        if not isinstance(step, int) or step < 1 or not never_more(0, start):
            return False
        if step == 1:
            self._end[result] = limit
        return True


def _are_integers(value: Value) -> bool:
    """Whether a value is known, in integers."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def _number(value: Value) -> Extent:
    (number,) = (value.array if isinstance(value, Extents) else np.asarray(value)).reshape(-1)
    return simplify(number)
