"""Ctrl-C, told apart from the errors it causes."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""The exit status of a verb that was interrupted."""


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


@contextmanager
def stop_requests(tell: Callable[[str], None]) -> Iterator[Sequence[int]]:
    """Yields a sequence that gets an entry with the first Ctrl-C; the second one interrupts."""
    requests: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield requests
        return
    previous = signal.getsignal(signal.SIGINT)

    def request(number: int, frame: FrameType | None) -> None:
        del frame
        requests.append(number)
        tell("stopping; once more to stop at once")
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, request)
    try:
        yield requests
    finally:
        signal.signal(signal.SIGINT, previous)


__all__ = ["noted_interrupts", "stop_requests"]
