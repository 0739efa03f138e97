"""Texts that come from files: where something stands in them, and how messages quote them."""

import re
from bisect import bisect_right
from functools import cached_property

from relay_layout.errors import ModelError, printable
from relay_layout.relay.syntax.tree import Span


class Source:
    """A text with its name, for messages that say where."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def span(self, offset: int) -> Span:
        """The line and column of an offset."""
        line = bisect_right(self._line_starts, offset)
        return Span(line, offset - self._line_starts[line - 1] + 1)

    def error(self, offset: int, message: str) -> ModelError:
        """The error to raise for what stands at an offset."""
        line, column = self.span(offset)
        return ModelError(f"{self.name}:{line}:{column}: {message}")


def shorten(text: str) -> str:
    """At most 40 characters of a text that a file brings, on one line."""
    cut = text if len(text) <= 40 else text[:37] + "..."
    return printable(cut)


def decode(source: str | bytes, name: str) -> str:
    """The text of a file.

    Raises ModelError when its bytes are not UTF-8.
    """
    if isinstance(source, str):
        return source.removeprefix("\ufeff")
    try:
        return bytes(source).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"{name}: expected text in UTF-8, found other data at byte {error.start}") from None
