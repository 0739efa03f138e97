"""Names of Relay that are not there: what to do instead, in the error itself."""

from collections.abc import Callable
from typing import Any

from relay_layout.port.names import RELAY, known_reason


def missing(module: str, name: str, old: str = "", near: str = "") -> AttributeError:
    """The error for a name of Relay's that one of our modules lacks.

    ``old`` is the module where it was. Where nothing is known of the name, ``near`` may be meant.
    """
    reason = known_reason(f"{old or 'tvm.relay' + module.removeprefix(RELAY)}.{name}")
    told = f": {reason}" if reason and not name.startswith("_") else ""
    if near and not told:
        told = f"; did you mean '{near}'?"
    return AttributeError(f"module '{module}' has no attribute '{name}'{told}", name=name)


def missing_member(owner: object, name: str, old: str) -> AttributeError:
    """The error for what one of our objects lacks. ``old`` is the class that had it."""
    reason = known_reason(f"{old}.{name}")
    told = f": {reason}" if reason and not name.startswith("_") else ""
    return AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'{told}", name=name)


def refuser(module: str, old: str = "") -> Callable[[str], Any]:
    """``__getattr__`` of a module that has all its names written out."""

    def refuse(name: str) -> Any:
        raise missing(module, name, old)

    return refuse
