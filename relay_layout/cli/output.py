"""What a verb has to say: an outcome at the end, and progress on the way."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any

from relay_layout.explanation.words import shown


@dataclass(frozen=True)
class Outcome:
    """What a verb returns.

    report: the fields of the JSON object that ``--json`` prints.
    text: the same for people.
    exit_status: 0, or 1 where the verb did its work and found something wrong.
    """

    report: Mapping[str, Any]
    text: str
    exit_status: int = 0

    def json_line(self) -> str:
        """The report as one line of JSON."""
        return json.dumps(self.report, allow_nan=False)


def note(line: str) -> None:
    """Says something on standard error; where that is closed or full, the work goes on without."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


def is_watched() -> bool:
    """Whether standard error is a terminal, at which somebody may be looking."""
    return sys.stderr is not None and sys.stderr.isatty()


def progress(line: str) -> None:
    """Says on standard error what is going on, if somebody is looking.

    In a pipe or a log nothing but an error may appear there, so that an error is one line.
    """
    if is_watched():
        note(line)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Meanwhile, what anybody writes to standard output goes to standard error, native code included."""
    with redirect_stdout(sys.stderr), _redirected_descriptor():
        yield


@contextmanager
def _redirected_descriptor() -> Iterator[None]:
    try:
        saved = os.dup(1)
    except OSError:  # closed by the caller: then there is nothing to keep clean
        yield
        return
    try:
        with suppress(OSError):
            os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def hold_standard_descriptors() -> None:
    """Opens standard descriptors that are closed, so that no file gets their numbers.

    Native code would write its warnings into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def write_stdout(text: str) -> None:
    """Writes lines to standard output, where it cannot show a character its escape.

    OSError, as soon as here and not when the interpreter ends, if it cannot be written.
    """
    stream = sys.stdout
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def discard_stdout() -> None:
    """Drops what standard output still holds, which the interpreter would try to write at its end."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def one_line(text: str) -> str:
    """The text on one line, with control characters and broken file names escaped."""
    return shown(" ".join(text.split()))


def size_text(size: int) -> str:
    """A number of bytes for people, such as ``102.4 MB``."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
