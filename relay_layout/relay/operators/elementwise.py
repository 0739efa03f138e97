"""Arithmetic, comparisons and mathematical functions, element by element with broadcasting."""

from __future__ import annotations

from relay_layout.relay.operators.direct import direct

_UNARY = {
    "abs": "abs",
    "exp": "exp",
}

_BINARY = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
}

ROWS = (
    *(direct(name, "data", relax_name=relax_name) for name, relax_name in _UNARY.items()),
    *(direct(name, "lhs rhs", relax_name=relax_name) for name, relax_name in _BINARY.items()),
)
