"""One of several expressions, by an index."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx


def chosen(index: Any, values: Sequence[Any]) -> Any:
    """The value at ``index``: a choice that unrolling decides. An index beyond them takes the last."""
    result = values[-1]
    for place in reversed(range(len(values) - 1)):
        result = tirx.Select(index == place, values[place], result)
    return result
