"""Relay's operators in terms of Relax: one table, read by the Python surface and by both file formats."""

from relay_layout.relay.operators.attributes import OPEN, Attributes, changed, complete, declared
from relay_layout.relay.operators.carried import decompose
from relay_layout.relay.operators.operator import Exported, Operator, Scope
from relay_layout.relay.operators.table import TABLE, did_you_mean, relay_form

__all__ = [
    "OPEN",
    "TABLE",
    "Attributes",
    "Exported",
    "Operator",
    "Scope",
    "changed",
    "complete",
    "declared",
    "decompose",
    "did_you_mean",
    "relay_form",
]
