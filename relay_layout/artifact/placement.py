"""Where each array lies in the section of weights: one after the other, equal bytes only once."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relay_layout.artifact import fields
from relay_layout.artifact.manifest import Build, WeightEntry
from relay_layout.errors import ArtifactError

Array = np.ndarray[Any, np.dtype[Any]]

_ARRAY_ALIGNMENT = 64


@dataclass(frozen=True)
class Content:
    """The bytes of one build: its library, a shared object, and its weights by name, in order.

    Of an artifact that was read, the weights are read-only arrays on addresses that are multiples of 64. The
    mapping is private, so whoever must hand one to DLPack without a copy may set its ``flags.writeable``;
    the file is safe.
    """

    library: bytes | bytearray | memoryview
    weights: Mapping[str, Array]


def align(offset: int, alignment: int) -> int:
    """The least multiple of ``alignment`` from ``offset`` on, both in bytes."""
    return -(-offset // alignment) * alignment


def stored(array: Array) -> Array:
    """The bytes of ``array`` as artifacts hold them, as a flat uint8 array; copies only if it must."""
    little_endian = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return little_endian.reshape(-1).view(np.uint8)


def shared(weights: Mapping[str, Array]) -> dict[str, Array]:
    """The same weights, of equal ones a single array, so that all who read it find it in the cache."""
    known, own = _Known(), list(weights.values())
    firsts = (own[known.offset(array, place)] for place, array in enumerate(own))
    return {
        name: first if (first.dtype, first.shape) == (array.dtype, array.shape) else array
        for (name, array), first in zip(weights.items(), firsts, strict=True)
    }


def place(contents: Sequence[Content]) -> list[tuple[WeightEntry, ...]]:
    """The entries of each content's weights. ArtifactError, naming the weight, for what cannot be held."""
    tables = []
    known = _Known()
    end = 0
    for content in contents:
        entries = []
        for name, array in content.weights.items():
            _check(name, array)
            offset = known.offset(array, align(end, _ARRAY_ALIGNMENT))
            end = max(end, offset + array.nbytes)
            try:
                entries.append(WeightEntry(name, array.dtype.name, array.shape, offset, array.nbytes))
            except ArtifactError as error:
                raise ArtifactError(f"weight {name!r}: {error}") from None
        tables.append(tuple(entries))
    return tables


def pieces(weights: Iterable[tuple[WeightEntry, Array]]) -> Iterator[memoryview]:
    """The bytes of a section of weights, in order: gaps of zeros, and each array that has a place of its own.

    ArtifactError for an array that is not what its entry says any more.
    """
    position = 0
    for entry, array in weights:
        gap = entry.offset - position
        if gap < 0 or (gap == 0 and entry.nbytes == 0):
            continue
        if array.shape != entry.shape or array.dtype.name != entry.dtype:
            raise ArtifactError(f"the weight {entry.name!r} changed while it was being written")
        yield memoryview(bytes(gap))
        yield stored(array).data
        position = entry.offset + entry.nbytes


def check_placement(builds: Sequence[Build], size: int) -> None:
    """Raises ArtifactError unless the builds' arrays fill ``size`` bytes as :func:`place` lays them out."""
    position = 0
    seen: set[tuple[int, int]] = set()
    for build in builds:
        for entry in build.weights:
            if (entry.offset, entry.nbytes) in seen:
                continue
            if entry.offset != align(position, _ARRAY_ALIGNMENT):
                raise ArtifactError(f"{entry.name!r} lies at {entry.offset}, not after its neighbour")
            seen.add((entry.offset, entry.nbytes))
            position = entry.offset + entry.nbytes
    if position != size:
        raise ArtifactError(f"{size} bytes, its arrays take {position}")


_SAMPLES = 64
"""Bytes by which arrays are told apart before they are hashed."""


class _Known:
    """Arrays that have their place. Only those that share size and samples with another are ever hashed."""

    def __init__(self) -> None:
        self._unhashed: dict[tuple[int, bytes], tuple[Array, int] | None] = {}
        self._offsets: dict[tuple[int, bytes], int] = {}

    def offset(self, array: Array, end: int) -> int:
        """Where bytes like these lie already, or else ``end``, which is then their place."""
        size = array.nbytes
        alike = size, stored(array)[:: max(1, size // _SAMPLES)].tobytes()
        if alike not in self._unhashed:
            self._unhashed[alike] = array, end
            return end
        first = self._unhashed[alike]
        if first is not None:
            self._offsets[size, _digest(first[0])] = first[1]
            self._unhashed[alike] = None
        return self._offsets.setdefault((size, _digest(array)), end)


def _digest(array: Array) -> bytes:
    return hashlib.sha256(stored(array).data).digest()


def _check(name: str, array: object) -> None:
    if not isinstance(array, np.ndarray):
        raise ArtifactError(f"weight {name!r}: expected a numpy array, got {type(array).__name__}")
    if array.dtype.name not in fields.DTYPES:
        known = ", ".join(fields.DTYPES)
        raise ArtifactError(
            f"weight {name!r}: artifacts do not hold the dtype {array.dtype.name}, only {known}"
        )
