"""What converters read of a node of a PyTorch program: its arguments, its type, which results are used."""

from collections.abc import Callable
from typing import Any

from relay_layout.ir import Expression

Converter = Callable[[Any, Any], Expression]
"""From a ``torch.fx.Node`` and TVM's importer, whose ``env`` has the values of nodes before, to its value."""


def argument(node: Any, position: int, name: str, otherwise: Any = None) -> Any:
    """What a node is given at a position or by a name; ``otherwise`` for neither, and for None."""
    found = node.args[position] if len(node.args) > position else node.kwargs.get(name)
    return otherwise if found is None else found


def value_of(importer: Any, given: Any) -> Any:
    """The value of an argument that is a node, such as an open extent; others as they are."""
    return importer.env.get(given, given)


def result_dtype(node: Any) -> str:
    """The type of a node's result as TVM writes it, such as "float32"."""
    return dtype_name(node.meta["val"].dtype)


def dtype_name(dtype: Any) -> str:
    """A ``torch.dtype`` as TVM writes it."""
    return str(dtype).removeprefix("torch.")


def is_read(node: Any, place: int) -> bool:
    """Whether the program reads the result at ``place`` of a node that gives several."""
    return any(len(user.args) < 2 or user.args[1] == place for user in node.users)


def is_negative(number: Any) -> bool:
    """Whether an argument is below zero; a symbolic one, in the example, which the guards keep so."""
    value = getattr(number, "meta", {}).get("val", number)
    if isinstance(value, int):
        return value < 0
    inner = getattr(value, "node", None)
    return inner is not None and inner.has_hint() and inner.hint < 0
