"""The operator that a caller means by a name, a part of one, or an index."""

import difflib
from collections.abc import Sequence

from relay_layout.errors import InputError
from relay_layout.explanation.words import MOST_NAMED, first_of, shown


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
