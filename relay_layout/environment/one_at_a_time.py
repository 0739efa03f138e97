"""Threads that import, convert or compile models take turns: TVM builds one module at a time in a process.

Its builders of modules are a stack that all threads share, so that one thread would go on with another's.
"""

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which waits until no other thread is in any function with this decorator."""

    @wraps(function)
    def alone(*arguments: P.args, **options: P.kwargs) -> R:
        with _lock:
            return function(*arguments, **options)

    return alone


def _start_anew() -> None:
    """A child has none of the threads that its parent had, and nobody ends what they began."""
    global _lock
    if _lock.acquire(blocking=False):
        _lock.release()
        return
    _lock = threading.RLock()
    # Imported by whoever holds the lock, and not for those who only run networks.
    from tvm.relax import BlockBuilder

    BlockBuilder._stack.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
