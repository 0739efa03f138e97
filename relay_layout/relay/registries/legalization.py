"""Callbacks that put other expressions in the place of operators, by Relay's attribute for them."""

from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.registries.registry import Callback, Registry

_ARGUMENTS = ("attrs", "inputs", "types")

LEGALIZE = Registry("legalize", _ARGUMENTS, ModelError)
QNN_LEGALIZE = Registry("qnn legalize", _ARGUMENTS, ModelError)
QNN_CANONICALIZE = Registry("qnn canonicalize", _ARGUMENTS, ModelError)

LEGALIZATIONS: dict[str, Registry] = {
    "FTVMLegalize": LEGALIZE,
    "FTVMQnnLegalize": QNN_LEGALIZE,
    "FTVMQnnCanonicalize": QNN_CANONICALIZE,
}
"""The registries by the name that ``relay.transform.Legalize`` takes."""


def register_legalize(op_name: str, legal_op: Callback | None = None, level: int = 10) -> Any:
    """Register ``f(attrs, inputs, types)`` for ``relay.transform.Legalize``; a decorator without ``f``.

    ``attrs`` are the call's attributes, complete; ``inputs`` its operands, with what was legalized before
    them; ``types`` their types and, last, that of the result. It returns the expression that takes the
    call's place, or None to leave it alone. Callbacks hold in ``relay.build`` as well. ModelError for an
    unknown operator or a second callback of the same level.
    """
    return LEGALIZE.register(op_name, legal_op, level)


def register_qnn_legalize(op_name: str, legal_op: Callback | None = None, level: int = 10) -> Any:
    """The same for ``relay.qnn.transform.Legalize``."""
    return QNN_LEGALIZE.register(op_name, legal_op, level)


def register_qnn_canonicalize(op_name: str, legal_op: Callback | None = None, level: int = 10) -> Any:
    """The same for ``relay.qnn.transform.CanonicalizeOps``."""
    return QNN_CANONICALIZE.register(op_name, legal_op, level)
