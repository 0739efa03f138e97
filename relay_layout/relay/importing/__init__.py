"""Relay's syntax tree to Relax modules."""

from relay_layout.relay.importing.module import from_tree

__all__ = ["from_tree"]
