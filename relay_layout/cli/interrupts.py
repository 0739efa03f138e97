"""Ctrl-C, told apart from the errors it causes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Yields a list that gets an entry with each interrupt.

    KeyboardInterrupt is raised as ever, but native code that calls back into Python may turn it into an
    error of its own, and a linker that was interrupted too looks like one that failed.
    """
    noted: list[int] = []
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield noted
        return

    def note_and_raise(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note_and_raise)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


__all__ = ["noted_interrupts"]
