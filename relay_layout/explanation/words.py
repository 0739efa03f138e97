"""Names and lists as texts."""

import difflib
from collections.abc import Sequence

from relay_layout.errors import InputError

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


def place_of(names: Sequence[str], operator: str | int) -> int:
    """The place that a name, a part of one, or an index means. InputError for none and for several."""
    wanted = str(operator)
    is_name = isinstance(operator, str) and wanted in names
    if not is_name and wanted.removeprefix("-").isdecimal():
        if len(wanted) < 10 and 0 <= int(wanted) < len(names):
            return int(wanted)
        bound = f"indices are 0 to {len(names) - 1}" if names else "the model has none"
        raise InputError(f"there is no operator {shown(wanted)}; {bound}")
    fitting = _fitting_names(names, wanted)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        found = first_of([f"{shown(names[place])} (index {place})" for place in fitting])
        raise InputError(
            f"'{shown(wanted)}' fits {len(fitting)} operators: {found}; give a whole name or an index"
        )
    near = difflib.get_close_matches(wanted, names, n=MOST_NAMED, cutoff=0.5) or names[:MOST_NAMED]
    hint = f"; did you mean {', '.join(map(shown, near))}?" if near else "; the model has no operators"
    raise InputError(f"there is no operator '{shown(wanted)}'{hint}")


def _fitting_names(names: Sequence[str], wanted: str) -> list[int]:
    """The places of the names that are ``wanted``, or where none is, of those that it is a part of."""
    exact = [place for place, name in enumerate(names) if name == wanted]
    return exact or [place for place, name in enumerate(names) if wanted and wanted in name]
