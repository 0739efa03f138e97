"""Operators: which layouts each can run in, and how its call changes with them."""

from relay_layout.ops.kept import KEEPS
from relay_layout.ops.signature import (
    ConvolutionLayouts,
    Offers,
    Placement,
    Rule,
    Signature,
    Wanted,
    unchanged,
)
from relay_layout.ops.table import TABLE, Rules, is_elementwise, table_rule

__all__ = [
    "KEEPS",
    "TABLE",
    "ConvolutionLayouts",
    "Offers",
    "Placement",
    "Rule",
    "Rules",
    "Signature",
    "Wanted",
    "is_elementwise",
    "table_rule",
    "unchanged",
]
