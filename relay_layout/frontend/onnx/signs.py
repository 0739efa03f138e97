"""Integers that are known not to be negative: indices found by an operator, which need no second look."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.values import Extents, Value

_NATURAL = {"ArgMax": 0, "ArgMin": 0, "NonMaxSuppression": 0, "NonZero": 0, "TopK": 1}
"""Which output of an operator holds indices that count from the front."""

_MOVES = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Split", "Squeeze"}
    | {"Tile", "Transpose", "Unsqueeze"}
)
"""Operators whose results hold elements of their first input, or of all inputs of a concatenation, alone."""


class Signs:
    """Which values of one graph are known to hold no negative numbers."""

    def __init__(self) -> None:
        self._natural: ByIdentity[Value, bool] = ByIdentity()

    def note(self, operator: str, inputs: Sequence[Value], results: Sequence[Any]) -> None:
        """What is known of the results of a node, in order."""
        if operator in _NATURAL:
            found = results[_NATURAL[operator] :][:1]
        elif operator in _MOVES:
            moved = inputs if operator == "Concat" else inputs[:1]
            found = results if all(map(self.is_natural, moved)) else []
        else:
            found = []
        for value in found:
            if value is not None:
                self._natural[value] = True

    def is_natural(self, value: Value) -> bool:
        """Whether a value holds no negative numbers, as far as is known."""
        if isinstance(value, np.ndarray):
            return value.dtype.kind in "iu" and bool((value >= 0).all())
        return isinstance(value, Extents) or value in self._natural


__all__ = ["Signs"]
