"""Numbers and axes in attributes: checked, and counted from the front."""

from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.operators.attributes import shown

MOST_DIMENSIONS = 64
"""How many dimensions a tensor may get."""


def integer(value: Any, name: str) -> int:
    """A whole number, of the attribute ``name``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ModelError(f"{name} is a whole number, not {shown(value)}")
    return value


def integers(value: Any, name: str) -> tuple[int, ...]:
    """A list of whole numbers; one number is a list of one."""
    entries = value if isinstance(value, tuple) else (value,)
    return tuple(integer(entry, f"every entry of {name}" if entries is value else name) for entry in entries)


def axis_of(value: Any, rank: int, name: str = "axis") -> int:
    """An axis of ``rank`` dimensions, counted from the front."""
    axis = integer(value, name)
    if not -rank <= axis < rank:
        raise ModelError(f"{name} {axis} is not one of {rank} dimensions")
    return axis % rank


def axes_of(value: Any, rank: int, name: str = "axis") -> tuple[int, ...]:
    """Different axes of ``rank`` dimensions, counted from the front, in the order given."""
    axes = tuple(axis_of(axis, rank, name) for axis in integers(value, name))
    if len(set(axes)) != len(axes):
        raise ModelError(f"{name} {shown(list(axes))} names one dimension twice")
    return axes


def positive(value: Any, name: str, most: int = 2**31 - 1) -> int:
    """A whole number of at least 1."""
    number = integer(value, name)
    if not 1 <= number <= most:
        raise ModelError(f"{name} is {number}; it is from 1 to {most}")
    return number


def one_axis_to_list(**arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a Python function on ``data`` whose ``axis`` may be one number."""
    data = arguments.pop("data")
    if isinstance(arguments.get("axis"), int):
        arguments["axis"] = (arguments["axis"],)
    return [data], arguments
