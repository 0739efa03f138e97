"""Operators of relay.nn on neighbourhoods and blocks of pixels."""

from __future__ import annotations

from relay_layout.relay.operators.operator import Operator

ROWS: tuple[Operator, ...] = ()
