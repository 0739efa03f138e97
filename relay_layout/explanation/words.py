"""Names and lists as texts."""

from collections.abc import Sequence

MOST_NAMED = 5
"""Names that a message lists."""


def shown(name: str) -> str:
    """A name from a model file on one line, with what does not print as its escape."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name)


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, or ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def first_of(words: Sequence[str]) -> str:
    """The first :data:`MOST_NAMED`, and how many more there are."""
    named = ", ".join(words[:MOST_NAMED])
    return f"{named} and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else named


def fitting_names(names: Sequence[str], wanted: str) -> list[int]:
    """The places of the names that are ``wanted``, or where none is, of those that it is a part of."""
    exact = [place for place, name in enumerate(names) if name == wanted]
    return exact or [place for place, name in enumerate(names) if wanted and wanted in name]
