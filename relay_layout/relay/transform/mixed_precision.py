"""Relay's categories of operators for ``ToMixedPrecision``: ``relay.transform.mixed_precision``."""

from relay_layout.relay.registries.mixed_precision import (
    DEFAULT_ALWAYS_LIST,
    DEFAULT_FOLLOW_LIST,
    DEFAULT_NEVER_LIST,
    MIXED_PRECISION_ALWAYS,
    MIXED_PRECISION_FOLLOW,
    MIXED_PRECISION_NEVER,
    register_mixed_precision_conversion,
)

__all__ = [
    "DEFAULT_ALWAYS_LIST",
    "DEFAULT_FOLLOW_LIST",
    "DEFAULT_NEVER_LIST",
    "MIXED_PRECISION_ALWAYS",
    "MIXED_PRECISION_FOLLOW",
    "MIXED_PRECISION_NEVER",
    "register_mixed_precision_conversion",
]
