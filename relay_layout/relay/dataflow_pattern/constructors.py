"""The functions of ``relay.dataflow_pattern`` that make patterns."""

from collections.abc import Mapping, Sequence
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.dataflow_pattern.patterns import (
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    IfPattern,
    LetPattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
)
from relay_layout.relay.operators import TABLE, did_you_mean
from relay_layout.relay.syntax import relay_types, tree


def is_op(op_name: str) -> DFPattern:
    """An operator; call it with patterns of its operands. ModelError for a name that Relay does not have."""
    if op_name not in TABLE:
        raise ModelError(f"is_op('{op_name}'): Relay has no such operator{did_you_mean(op_name)}")
    return ExprPattern(op_name)


def is_expr(expr: tree.Expression) -> DFPattern:
    """What is structurally the same as an expression."""
    return ExprPattern(expr)


def is_var(name: str = "") -> DFPattern:
    """A variable, or the one of a name."""
    return VarPattern(name)


def is_constant() -> DFPattern:
    """A constant."""
    return ConstantPattern()


def wildcard() -> DFPattern:
    """Anything."""
    return WildcardPattern()


def is_tuple(fields: Sequence[DFPattern] | None) -> TuplePattern:
    """A tuple of these fields, or of any for None."""
    return TuplePattern(None if fields is None else list(fields))


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> DFPattern:
    """A field of a tuple, or any of its fields."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> DFPattern:
    """A branch."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> DFPattern:
    """A binding by ``let``."""
    return LetPattern(var, value, body)


def has_type(ttype: relay_types.RelayType, pattern: DFPattern | None = None) -> DFPattern:
    """What has a type."""
    return (pattern or wildcard()).has_type(ttype)


def has_dtype(dtype: Any, pattern: DFPattern | None = None) -> DFPattern:
    """A tensor of a data type."""
    return (pattern or wildcard()).has_dtype(dtype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> DFPattern:
    """A tensor of a shape."""
    return (pattern or wildcard()).has_shape(shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> DFPattern:
    """What has attributes of these values."""
    return (pattern or wildcard()).has_attr(attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DFPattern:
    """``child`` where every reader of ``parent`` leads to it, through nothing but ``path``."""
    return DominatorPattern(parent, path, child)
