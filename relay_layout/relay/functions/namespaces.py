"""Modules that hold a function for each operator of a part of the table."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.functions.compositions import COMPOSITIONS
from relay_layout.relay.functions.operator_functions import operator_function
from relay_layout.relay.functions.registration import registered
from relay_layout.relay.missing import missing
from relay_layout.relay.operators import TABLE, did_you_mean
from relay_layout.relay.syntax.tree import OperatorName


def namespace(module: str, prefix: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module for the operators whose names start with ``prefix``."""

    def find(name: str) -> Any:
        if name == "__all__":
            return members(prefix)
        found = function_of(prefix + name)
        if found is None or "." in name:
            near = get_close_matches(name, members(prefix), 1, 0.75)
            raise missing(module, name, near=next(iter(near), ""))
        return found

    return find, lambda: members(prefix)


def members(prefix: str) -> list[str]:
    """The names of a part of the table, without the prefix, functions without operator included."""
    names = {name[len(prefix) :] for name in (*TABLE, *COMPOSITIONS) if name.startswith(prefix)}
    return sorted(name for name in names if "." not in name)


def function_of(name: str) -> Callable[..., Any] | None:
    """The function of an operator by its full name, None where there is none."""
    if name in COMPOSITIONS:
        return COMPOSITIONS[name]
    for known in (name, f"relay.op.{name}"):
        if known in TABLE:
            return operator_function(known)
    return None


def get(op_name: str) -> OperatorName:
    """The operator of a name, for ``relay.Call``, with ``name`` as in calls. ModelError if unknown."""
    if op_name not in TABLE:
        raise ModelError(f"there is no operator '{op_name}'{did_you_mean(op_name)}")
    return registered(op_name) or OperatorName(op_name)
