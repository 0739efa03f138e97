"""Patterns of expressions. What they match is told by :mod:`relay_layout.relay.dataflow_pattern.matching`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import tvm

from relay_layout.errors import ModelError
from relay_layout.relay.expression import TensorType, dtype_text
from relay_layout.relay.operators import TABLE, did_you_mean
from relay_layout.relay.syntax import tree

Patterns: TypeAlias = "tuple[DFPattern, ...]"


class DFPattern:
    """A pattern. One that stands at several places of another matches the same expression at all of them."""

    @property
    def inputs(self) -> Patterns:
        """The patterns that it is made of, in the order in which they are matched."""
        return ()

    def __call__(self, *args: DFPattern | None) -> CallPattern:
        """A call of what this matches; ``None`` alone stands for any arguments."""
        return CallPattern(self, None if args == (None,) else [_pattern(argument) for argument in args])

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """The same with attributes of these values, of a call, an operator ("TOpPattern") or a function."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: tree.RelayType) -> TypePattern:
        """The same with a type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: Any) -> DataTypePattern:
        """The same with a data type."""
        return DataTypePattern(self, dtype_text(dtype))

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """The same with a shape."""
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """The same, or what ``option_constructor`` makes of it."""
        return AltPattern(self, option_constructor(self))

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """The same where all that reads ``parent`` leads to it, through nothing but ``path``."""
        return DominatorPattern(parent, path if path is not None else wildcard(), self)

    def match(self, expr: Any) -> bool:
        """Whether an expression has this form."""
        # By its name, for matching takes patterns.
        return bool(import_module("relay_layout.relay.dataflow_pattern.matching").match(self, expr))

    def partition(
        self,
        expr: Any,
        attrs: Mapping[str, Any] | None = None,
        check: Callable[[Any], bool] = lambda expr: True,
    ) -> Any:
        """An expression with calls of functions in the place of what matches; see :func:`partition`."""
        partitioning = import_module("relay_layout.relay.dataflow_pattern.partitioning")
        return partitioning.partition(self, expr, attrs, check)


@dataclass(frozen=True, eq=False)
class ExprPattern(DFPattern):
    """An operator by its name, or what is structurally the same as an expression."""

    expr: tree.Expression | str


@dataclass(frozen=True, eq=False)
class VarPattern(DFPattern):
    """A variable, of any name where ``name`` is empty."""

    name: str = ""


@dataclass(frozen=True, eq=False)
class ConstantPattern(DFPattern):
    """A constant."""


@dataclass(frozen=True, eq=False)
class WildcardPattern(DFPattern):
    """Anything."""


@dataclass(frozen=True, eq=False)
class CallPattern(DFPattern):
    """A call; without ``args``, of any arguments."""

    op: DFPattern
    args: Sequence[DFPattern] | None

    @property
    def inputs(self) -> Patterns:
        """The callee, then the arguments."""
        return (self.op, *(self.args or ()))


@dataclass(frozen=True, eq=False)
class FunctionPattern(DFPattern):
    """A function literal; without ``params``, of any parameters."""

    params: Sequence[DFPattern] | None
    body: DFPattern

    @property
    def inputs(self) -> Patterns:
        """The parameters, then the body."""
        return (*(self.params or ()), self.body)


@dataclass(frozen=True, eq=False)
class IfPattern(DFPattern):
    """A branch."""

    cond: DFPattern
    true_branch: DFPattern
    false_branch: DFPattern

    @property
    def inputs(self) -> Patterns:
        """The condition and both sides."""
        return (self.cond, self.true_branch, self.false_branch)


@dataclass(frozen=True, eq=False)
class LetPattern(DFPattern):
    """``let var = value; body``."""

    var: DFPattern
    value: DFPattern
    body: DFPattern

    @property
    def inputs(self) -> Patterns:
        """The variable, the value and the body."""
        return (self.var, self.value, self.body)


@dataclass(frozen=True, eq=False)
class TuplePattern(DFPattern):
    """A tuple; without ``fields``, of any size."""

    fields: Sequence[DFPattern] | None

    @property
    def inputs(self) -> Patterns:
        """The fields."""
        return tuple(self.fields or ())

    def __getitem__(self, index: int) -> TupleGetItemPattern:
        if self.fields is not None and not 0 <= index < len(self.fields):
            raise IndexError(f"field {index} of a tuple of {len(self.fields)}")
        return TupleGetItemPattern(self, index)

    def __len__(self) -> int:
        return len(self.fields or ())


@dataclass(frozen=True, eq=False)
class TupleGetItemPattern(DFPattern):
    """A field of a tuple; without ``index``, any."""

    tuple: DFPattern
    index: int | None

    @property
    def inputs(self) -> Patterns:
        """The tuple."""
        return (self.tuple,)


@dataclass(frozen=True, eq=False)
class AltPattern(DFPattern):
    """The first of two that matches."""

    left: DFPattern
    right: DFPattern

    @property
    def inputs(self) -> Patterns:
        """Both."""
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class _Constrained(DFPattern):
    pattern: DFPattern

    @property
    def inputs(self) -> Patterns:
        """The pattern without the condition."""
        return (self.pattern,)


@dataclass(frozen=True, eq=False)
class AttrPattern(_Constrained):
    """What has attributes of these values."""

    attrs: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class TypePattern(_Constrained):
    """What has a type."""

    type: tree.RelayType


@dataclass(frozen=True, eq=False)
class DataTypePattern(_Constrained):
    """A tensor of a data type."""

    dtype: str


@dataclass(frozen=True, eq=False)
class ShapePattern(_Constrained):
    """A tensor of a shape."""

    shape: Sequence[Any]


@dataclass(frozen=True, eq=False)
class DominatorPattern(DFPattern):
    """``child`` where every reader of ``parent`` leads to it, through nothing but what matches ``path``."""

    parent: DFPattern
    path: DFPattern
    child: DFPattern

    @property
    def inputs(self) -> Patterns:
        """The parent and the child; the path matches any number of expressions."""
        return (self.parent, self.child)


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


def has_type(ttype: tree.RelayType, pattern: DFPattern | None = None) -> DFPattern:
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


def plain(value: Any) -> Any:
    """A value of an attribute, of a script or of a call, in one form for both."""
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return plain(value.value)
    if isinstance(value, list | tuple | tvm.ir.Array):
        return tuple(map(plain, value))
    return str(value) if isinstance(value, str | tvm.DataType) else value


def shape_of_pattern(shape: Sequence[Any]) -> tuple[int | None, ...]:
    """A shape as types have it."""
    kind: tree.TensorType = TensorType(tuple(map(plain, shape)))
    return kind.shape


def _pattern(argument: Any) -> DFPattern:
    if not isinstance(argument, DFPattern):
        raise TypeError(f"an argument of a pattern is a pattern, not {type(argument).__name__}")
    return argument
