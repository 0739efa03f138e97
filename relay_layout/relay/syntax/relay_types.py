"""The types of Relay, which are plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_TYPE_NESTING = 64
"""How deep types and attribute values may nest; the readers refuse more, so comparing them may recurse."""


def written_tuple(fields: Sequence[str]) -> str:
    """Fields as Relay text has a tuple of them."""
    return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor: one entry per dimension, None where the size is unknown (``?``); a scalar has none.

    Types are printed as Relay text has them.
    """

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        return f"Tensor[({', '.join(self.written_shape)}), {self.dtype}]" if self.shape else self.dtype

    @property
    def written_shape(self) -> list[str]:
        """Each dimension as Relay text has it."""
        return ["?" if extent is None else str(extent) for extent in self.shape]

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape where it is known in full; ValueError where it is not."""
        known = tuple(extent for extent in self.shape if extent is not None)
        if len(known) != len(self.shape):
            raise ValueError("the shape of a type has unknown dimensions")
        return known


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple of types."""

    fields: tuple[RelayType, ...]

    def __str__(self) -> str:
        return written_tuple(list(map(str, self.fields)))


@dataclass(frozen=True, slots=True)
class FuncType:
    """The type of a function."""

    parameters: tuple[RelayType, ...]
    result: RelayType

    def __str__(self) -> str:
        return f"fn ({', '.join(map(str, self.parameters))}) -> {self.result}"


RelayType = TensorType | TupleType | FuncType

TYPES = (TensorType, TupleType, FuncType)
"""The classes of :data:`RelayType`, for ``isinstance``."""
