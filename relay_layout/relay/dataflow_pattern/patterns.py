"""Patterns of expressions, and what each of them matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relay_layout.errors import ModelError
from relay_layout.relay.dataflow_pattern.attributes import has_attribute, plain
from relay_layout.relay.dataflow_pattern.matching import Matcher, Pattern, match
from relay_layout.relay.dataflow_pattern.partitioning import partition
from relay_layout.relay.syntax import children, relay_types, structurally_equal, tree
from relay_layout.relay.ty import TensorType, dtype_text

Patterns: TypeAlias = "tuple[DFPattern, ...]"

_COMMUTATIVE = ("add", "multiply")


class DFPattern(Pattern):
    """A pattern. One that stands at several places of another matches the same expression at all of them."""

    def __call__(self, *args: DFPattern | None) -> CallPattern:
        """A call of what this matches; ``None`` alone stands for any arguments."""
        return CallPattern(self, None if args == (None,) else [_pattern(argument) for argument in args])

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return ExprPattern("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return ExprPattern("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return ExprPattern("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return ExprPattern("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """The same with attributes of these values, of a call, an operator ("TOpPattern") or a function."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: relay_types.RelayType) -> TypePattern:
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
        return DominatorPattern(parent, path if path is not None else WildcardPattern(), self)

    def match(self, expr: Any) -> bool:
        """Whether an expression has this form."""
        return match(self, expr)

    def partition(
        self,
        expr: Any,
        attrs: Mapping[str, Any] | None = None,
        check: Callable[[Any], bool] = lambda expr: True,
    ) -> Any:
        """An expression with calls of functions in the place of what matches; see :func:`partition`."""
        return partition(self, expr, attrs, check)


@dataclass(frozen=True, eq=False)
class ExprPattern(DFPattern):
    """An operator by its name, or what is structurally the same as an expression."""

    expr: tree.Expression | str

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The operator of the name, or the same expression."""
        if isinstance(self.expr, str) or isinstance(expression, str):
            return isinstance(expression, str) and expression == self.expr
        return self.expr is expression or structurally_equal(self.expr, expression)

    def takes_input(self, found: tree.Expression) -> bool:
        """Unless it is a constant."""
        return not isinstance(found, tree.Constant)


@dataclass(frozen=True, eq=False)
class VarPattern(DFPattern):
    """A variable, of any name where ``name`` is empty."""

    name: str = ""

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """Variables of the name."""
        return isinstance(expression, tree.Var) and self.name in ("", expression.name)

    def takes_input(self, found: tree.Expression) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class ConstantPattern(DFPattern):
    """A constant."""

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        return isinstance(expression, tree.Constant)


@dataclass(frozen=True, eq=False)
class WildcardPattern(DFPattern):
    """Anything."""

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        return True

    def takes_input(self, found: tree.Expression) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class CallPattern(DFPattern):
    """A call; without ``args``, of any arguments."""

    op: DFPattern
    args: Sequence[DFPattern] | None

    @property
    def inputs(self) -> Patterns:
        """The callee, then the arguments."""
        return (self.op, *(self.args or ()))

    @property
    def is_open(self) -> bool:
        """Without arguments."""
        return self.args is None

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The operands of sums and products in either order."""
        if not isinstance(expression, tree.Call) or not matcher.visit(self.op, expression.op):
            return False
        if self.args is None or matcher.visit_all(self.args, expression.args):
            return True
        return expression.op in _COMMUTATIVE and matcher.visit_all(self.args, expression.args[::-1])


@dataclass(frozen=True, eq=False)
class FunctionPattern(DFPattern):
    """A function literal; without ``params``, of any parameters."""

    params: Sequence[DFPattern] | None
    body: DFPattern

    @property
    def inputs(self) -> Patterns:
        """The parameters, then the body."""
        return (*(self.params or ()), self.body)

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The parameters, and the body."""
        if not isinstance(expression, tree.Function):
            return False
        fits = self.params is None or matcher.visit_all(self.params, expression.params)
        return fits and matcher.visit(self.body, expression.body)


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

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The condition and both sides."""
        return isinstance(expression, tree.If) and matcher.visit_all(self.inputs, children(expression))


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

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The variable, the value and the body."""
        if not isinstance(expression, tree.Let):
            return False
        return matcher.visit_all(self.inputs, (expression.var, expression.value, expression.body))


@dataclass(frozen=True, eq=False)
class TuplePattern(DFPattern):
    """A tuple; without ``fields``, of any size."""

    fields: Sequence[DFPattern] | None

    @property
    def inputs(self) -> Patterns:
        """The fields."""
        return tuple(self.fields or ())

    @property
    def is_open(self) -> bool:
        """Without fields."""
        return self.fields is None

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The fields."""
        if not isinstance(expression, tree.Tuple):
            return False
        return self.fields is None or matcher.visit_all(self.fields, expression.fields)

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

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The place and the tuple."""
        if not isinstance(expression, tree.TupleGetItem):
            return False
        is_place = self.index is None or self.index == expression.index
        return is_place and matcher.visit(self.tuple, expression.tuple_value)


@dataclass(frozen=True, eq=False)
class AltPattern(DFPattern):
    """The first of two that matches."""

    left: DFPattern
    right: DFPattern

    @property
    def inputs(self) -> Patterns:
        """Both."""
        return (self.left, self.right)

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The first that matches."""
        return matcher.visit(self.left, expression) or matcher.visit(self.right, expression)


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

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The values, as they are written or by default."""
        if not matcher.visit(self.pattern, expression):
            return False
        return all(has_attribute(expression, name, value) for name, value in self.attrs.items())


@dataclass(frozen=True, eq=False)
class _Typed(_Constrained):
    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The type; what has none does not match."""
        if isinstance(expression, str) or not matcher.visit(self.pattern, expression):
            return False
        try:
            return self._takes(expression.checked_type)
        except ModelError:
            return False

    def _takes(self, kind: relay_types.RelayType) -> bool:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class TypePattern(_Typed):
    """What has a type."""

    type: relay_types.RelayType

    def _takes(self, kind: relay_types.RelayType) -> bool:
        return kind == self.type


@dataclass(frozen=True, eq=False)
class DataTypePattern(_Typed):
    """A tensor of a data type."""

    dtype: str

    def _takes(self, kind: relay_types.RelayType) -> bool:
        return isinstance(kind, relay_types.TensorType) and kind.dtype == self.dtype


@dataclass(frozen=True, eq=False)
class ShapePattern(_Typed):
    """A tensor of a shape."""

    shape: Sequence[Any]

    def _takes(self, kind: relay_types.RelayType) -> bool:
        # As types have it.
        wanted: relay_types.TensorType = TensorType(tuple(map(plain, self.shape)))
        return isinstance(kind, relay_types.TensorType) and kind.shape == wanted.shape


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

    def matches(self, matcher: Matcher, expression: Any) -> bool:
        """The child, and the nearest parent from which everything leads to it by way of the path."""
        if isinstance(expression, str) or not matcher.visit(self.child, expression):
            return False
        return matcher.dominated(self, self.parent, self.path, expression)


def _pattern(argument: Any) -> DFPattern:
    if not isinstance(argument, DFPattern):
        raise TypeError(f"an argument of a pattern is a pattern, not {type(argument).__name__}")
    return argument
