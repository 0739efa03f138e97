"""Turns that threads take, of which a fork of the process is one, and its end the last."""

import atexit
import os
import threading
import time
import weakref
from collections.abc import Iterator

PATIENCE = 10.0
"""Seconds that a fork or the end waits at most: its own thread may be inside, as in handlers of signals."""


class Turns:
    """A lock, to be entered as ``with turns.lock:``, by which an interrupt never leaves it locked.

    A fork waits until no thread is inside one. A child has only the thread that forked, so that a lock which
    another one held would stay locked there for ever, over memory that a call left half written.

    The end of the process waits as well, and lets no thread in but its own: Python aborts the process where
    the thread of a daemon comes back from native code to an interpreter that has ended.
    """

    def __init__(self) -> None:
        self.lock: threading.Lock | threading.RLock = threading.Lock()
        _all[id(self)] = self


_all: "weakref.WeakValueDictionary[int, Turns]" = weakref.WeakValueDictionary()

_forking = threading.Lock()
"""Held by a thread that forks: of two at once, each would wait for what the other one has."""

_entered: list["threading.Lock | threading.RLock"] = []
_missed: list[Turns] = []


def _entering() -> Iterator[tuple[Turns, bool]]:
    """All turns, and whether they were entered in time."""
    deadline = time.monotonic() + PATIENCE
    for reference in _all.valuerefs():
        turns = reference()
        if turns is not None:
            yield turns, turns.lock.acquire(timeout=max(0.0, deadline - time.monotonic()))


def _before() -> None:
    _forking.acquire()
    for turns, is_entered in _entering():
        if is_entered:
            _entered.append(turns.lock)
        else:
            _missed.append(turns)


def _after_in_child() -> None:
    for turns in _missed:
        turns.lock = threading.Lock()
    _after()


def _after() -> None:
    _missed.clear()
    while _entered:
        _entered.pop().release()
    _forking.release()


def _at_exit() -> None:
    for turns, is_entered in _entering():
        if is_entered:
            own = threading.RLock()
            own.acquire()
            turns.lock = own


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
