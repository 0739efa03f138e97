"""Names and lists as texts."""

from collections.abc import Sequence


def shown(name: str) -> str:
    """A name from a model file on one line, with what does not print as its escape."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name)


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, or ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
