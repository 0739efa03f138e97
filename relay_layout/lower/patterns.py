"""TVM's operator pattern kinds, by which functions are fused.

The first two join the function of a convolution before them, an injective one only that of other elementwise
operators, and nothing joins an opaque one.
"""

PATTERN = "op_pattern"
"""The attribute of a function."""

ELEMENTWISE, BROADCAST, INJECTIVE, OUT_ELEMENTWISE_FUSABLE, OPAQUE = 0, 1, 2, 4, 8

__all__ = ["BROADCAST", "ELEMENTWISE", "INJECTIVE", "OPAQUE", "OUT_ELEMENTWISE_FUSABLE", "PATTERN"]
