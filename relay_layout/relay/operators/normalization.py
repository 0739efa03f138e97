"""Normalization."""

from __future__ import annotations

from relay_layout.relay.operators.operator import Operator

ROWS: tuple[Operator, ...] = ()
