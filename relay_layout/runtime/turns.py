"""Turns that threads take, of which a fork of the process is one."""

import os
import threading
import weakref


class Turns:
    """A lock for a ``with`` block.

    A fork waits until no thread is inside one. A child has only the thread that forked, so that a lock which
    another one held would stay locked there for ever, over memory that a call left half written. Where the
    forking thread is inside itself, as the handler of a signal may be, the child is too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None
        _ALL[id(self)] = self

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *raised: object) -> None:
        self._holder = None
        self._lock.release()

    def is_mine(self) -> bool:
        """Whether the calling thread is inside."""
        return self._holder == threading.get_ident()


_ALL: "weakref.WeakValueDictionary[int, Turns]" = weakref.WeakValueDictionary()

_FORKING = threading.Lock()
"""Of two threads that fork at once, each would wait for what the other one has."""

_held: list[Turns] = []


def _before() -> None:
    _FORKING.acquire()
    for reference in _ALL.valuerefs():
        turns = reference()
        if turns is not None and not turns.is_mine():
            turns.__enter__()
            _held.append(turns)


def _after() -> None:
    while _held:
        _held.pop().__exit__()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)

__all__ = ["Turns"]
