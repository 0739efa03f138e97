"""Rows of a tensor by one number each, in the order in which they lie."""

from collections.abc import Sequence
from typing import Any


def number_of_row(index: Sequence[Any], outer: Sequence[Any]) -> Any:
    """The number of the row at ``index``, which counts along extents ``outer``."""
    row: Any = 0
    for place, extent in zip(index, outer, strict=True):
        row = row * extent + place
    return row


def index_of_row(row: Any, outer: Sequence[Any]) -> list[Any]:
    """The inverse of :func:`number_of_row`."""
    if not outer:
        return []
    index: list[Any] = []
    for extent in reversed(outer[1:]):
        index.insert(0, row % extent)
        row = row // extent
    return [row, *index]
