"""A table of objects by what they are, not by what they equal: arrays, expressions, parts of a file."""

from collections.abc import Callable
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")


class ByIdentity(Generic[_Key, _Kept]):
    """What is known of objects, which live as long as the table: an identity may be used again after that."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[_Key, _Kept]] = {}

    def __contains__(self, key: object) -> bool:
        return id(key) in self._entries

    def __setitem__(self, key: _Key, kept: _Kept) -> None:
        self._entries[id(key)] = key, kept

    def get(self, key: _Key) -> _Kept | None:
        """What is kept for ``key``, None where nothing is."""
        entry = self._entries.get(id(key))
        return None if entry is None else entry[1]

    def copy(self) -> "ByIdentity[_Key, _Kept]":
        """A table of the same, to which other objects may be added."""
        other = ByIdentity[_Key, _Kept]()
        other._entries = dict(self._entries)
        return other

    def kept(self, key: _Key, make: Callable[[_Key], _Kept]) -> _Kept:
        """What is kept for ``key``: made of it when it is asked for first."""
        if key not in self:
            self[key] = make(key)
        return self._entries[id(key)][1]
