"""Operators that take parts of tensors and put them together."""

from __future__ import annotations

from relay_layout.relay.operators.operator import Operator

ROWS: tuple[Operator, ...] = ()
