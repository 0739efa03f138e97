"""Ctrl-C and SIGTERM, told apart from the errors they cause."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""The exit status of a verb that was interrupted."""


_DEFAULT: Mapping[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}
"""The signals that interrupt, and what stands for them where nobody has changed it.

SIGTERM, which schedulers and ``timeout`` send, would otherwise leave folders of temporary files.
"""


@contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Yields a list that gets an entry with each interrupt.

    KeyboardInterrupt is raised as ever, but native code that calls back into Python may turn it into an
    error of its own, and a linker that was interrupted too looks like one that failed. Lists of enclosing
    calls get an entry as well.
    """
    noted: list[int] = []
    ours = [
        number
        for number, default in _DEFAULT.items()
        if (present := signal.getsignal(number)) is default or isinstance(present, _NoteAndRaise)
    ]
    outer = {number: signal.getsignal(number) for number in ours}
    with _handled(ours, _NoteAndRaise(noted, outer)):
        yield noted


class _NoteAndRaise:
    """A handler that adds to a list, and to those of the handlers that it stands before."""

    def __init__(self, noted: list[int], outer: Mapping[signal.Signals, Any]) -> None:
        self._noted = noted
        self._outer = outer

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._noted.append(number)
        outer = self._outer.get(signal.Signals(number))
        (outer if isinstance(outer, _NoteAndRaise) else signal.default_int_handler)(number, frame)


@contextmanager
def stop_requests(tell: Callable[[str], None], requests: list[int]) -> Iterator[None]:
    """``requests`` get an entry with the first interrupt; the second one ends the work at once."""
    previous = {number: signal.getsignal(number) for number in _DEFAULT}

    def request(number: int, frame: FrameType | None) -> None:
        requests.append(number)
        tell("stopping; once more to stop at once")
        for each, handler in previous.items():
            signal.signal(each, handler or _DEFAULT[each])

    with _handled(list(_DEFAULT), request):
        yield


@contextmanager
def _handled(
    numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Meanwhile the handler gets these signals, in the main thread, which alone can set one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            if before is not None:  # None: not set by Python, so not for it to set again
                signal.signal(number, before)
