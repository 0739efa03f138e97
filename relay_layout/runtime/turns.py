"""Turns that threads take, of which a fork of the process is one."""

import os
import threading
import time
import weakref

PATIENCE = 10.0
"""Seconds that a fork waits at most: its own thread may be inside, as the handler of a signal is."""


class Turns:
    """A lock, to be entered as ``with turns.lock:``, by which an interrupt never leaves it locked.

    A fork waits until no thread is inside one. A child has only the thread that forked, so that a lock which
    another one held would stay locked there for ever, over memory that a call left half written.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _all[id(self)] = self


_all: "weakref.WeakValueDictionary[int, Turns]" = weakref.WeakValueDictionary()

_forking = threading.Lock()
"""Of two threads that fork at once, each would wait for what the other one has."""

_entered: list[threading.Lock] = []
_missed: list[Turns] = []


def _before() -> None:
    _forking.acquire()
    deadline = time.monotonic() + PATIENCE
    for reference in _all.valuerefs():
        turns = reference()
        if turns is None:
            continue
        if turns.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)

__all__ = ["PATIENCE", "Turns"]
