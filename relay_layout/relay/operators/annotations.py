"""Annotations: operators that compute nothing, and of which nothing is left in a Relax module."""

from collections.abc import Sequence

from relay_layout.ir import Expression
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.operator import Operator, Scope


def _operand(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    return operands[0]


def _row(name: str, attributes: str | None = None) -> Operator:
    return Operator(f"annotation.{name}", ("data",), _operand, attributes)


ROWS: tuple[Operator, ...] = (
    _row("stop_fusion"),
    _row("checkpoint"),
    _row("bitpack_start"),
    _row("bitpack_end"),
    _row("cast_hint", "CastHintAttrs"),
    _row("compiler_begin", "CompilerAttrs"),
    _row("compiler_end", "CompilerAttrs"),
)
