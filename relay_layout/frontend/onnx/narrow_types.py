"""Element types of less than a byte and floats of a byte, whose elements wider types hold here."""

from collections.abc import Sequence
from typing import Any

from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.onnx.signs import MOVES
from relay_layout.frontend.values import Value, dtype_of

HELD_BY = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}
"""Integers of less than a byte, and the bytes that hold them; floats are held by float32."""


class NarrowTypes:
    """The element types that a file gives the values of one graph which are computed at run time."""

    def __init__(self) -> None:
        self._found: ByIdentity[Value, str] = ByIdentity()

    def keep(self, value: Value, dtype: str) -> None:
        """Note that a value holds elements of ``dtype``."""
        self._found[value] = dtype

    def of(self, value: Value) -> str:
        """The element type of a tensor as the file has it."""
        return self._found.get(value) or dtype_of(value)

    def note(self, operator: str, inputs: Sequence[Value], results: Sequence[Any]) -> None:
        """What is known of the results of a node by its inputs, in order."""
        dtype = self._found.get(inputs[0]) if operator in MOVES and inputs else None
        for value in results:
            if dtype is not None and value is not None:
                self._found[value] = dtype
