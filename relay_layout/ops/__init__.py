"""Operators: which layouts each can run in, and how its call changes with them."""

from relay_layout.ops.signature import ConvolutionLayouts, Offers, Rule, Signature, Wanted, unchanged
from relay_layout.ops.table import TABLE

__all__ = ["TABLE", "ConvolutionLayouts", "Offers", "Rule", "Signature", "Wanted", "unchanged"]
