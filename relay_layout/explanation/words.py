"""Names, lists, layouts and counts as texts."""

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


def layouts(operands: Sequence[str], results: Sequence[str]) -> str:
    """Equal layouts in a row are written once, so that a concat of many stays readable."""
    return f"{_shortened(operands)} -> {_shortened(results)}"


def _shortened(layouts: Sequence[str]) -> str:
    parts: list[list[str]] = []
    for layout in layouts:
        if parts and parts[-1][0] == layout:
            parts[-1].append(layout)
        else:
            parts.append([layout])
    return ", ".join(part[0] if len(part) == 1 else f"{len(part)} x {part[0]}" for part in parts) or "nothing"


def counted(count: int, noun: str) -> str:
    """``1 transform``, ``2 transforms``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
