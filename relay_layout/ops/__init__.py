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
from relay_layout.ops.table import TABLE, is_elementwise

__all__ = [
    "KEEPS",
    "TABLE",
    "ConvolutionLayouts",
    "Offers",
    "Placement",
    "Rule",
    "Signature",
    "Wanted",
    "is_elementwise",
    "unchanged",
]
