"""The syntax tree of Relay modules.

Expressions form a graph: a subexpression that is used twice is one object, and objects are told apart by
identity, never by value.  Types and global variables are plain values.  Nothing here recurses, because a
network is a chain of thousands of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

MAX_TYPE_NESTING = 64
"""How deep types and attribute values may nest; the readers refuse more, so comparing them may recurse."""

MAX_EXPRESSION_NESTING = 200
"""How deep Relay text may nest parentheses, calls, functions and branches.  Chains of `%n = ...;` and of
`let` have no limit."""


class Span(NamedTuple):
    """Where something stands in its source text; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor: one entry per dimension, None where the size is unknown (`?`); a scalar has none."""

    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple of types."""

    fields: tuple[RelayType, ...]


@dataclass(frozen=True, slots=True)
class FuncType:
    """The type of a function."""

    parameters: tuple[RelayType, ...]
    result: RelayType


RelayType = TensorType | TupleType | FuncType


class _Node:
    """What expressions have in common: a short representation that does not descend into operands."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(_Node):
    """A local variable; each binding is its own object, so equal names do not mean the same variable."""

    name: str
    type: RelayType | None = None

    def __repr__(self) -> str:
        return f"<Var {self.name}>"


@dataclass(frozen=True, slots=True)
class GlobalVar:
    """A reference to a function of the module, without the leading `@`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(_Node):
    """A tensor with its values."""

    data: np.ndarray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(_Node):
    """A call of an operator (`op` is its name) or of a function (`op` is an expression).

    `attrs` has the attributes the source names; those left at the operator's default are absent.
    """

    op: str | Expression
    args: tuple[Expression, ...]
    attrs: Mapping[str, AttributeValue] = field(default_factory=dict)
    span: Span | None = None

    def __repr__(self) -> str:
        return f"<Call {self.op if isinstance(self.op, str) else repr(self.op)}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple(_Node):
    """A tuple of expressions."""

    fields: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItem(_Node):
    """One field of a tuple."""

    tuple_value: Expression
    index: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(_Node):
    """`let var = value; body`.  A function may refer to the variable it is bound to."""

    var: Var
    value: Expression
    body: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(_Node):
    """`if (condition) {true_branch} else {false_branch}`."""

    condition: Expression
    true_branch: Expression
    false_branch: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function(_Node):
    """A function: of a module, or a literal within an expression."""

    params: tuple[Var, ...]
    body: Expression
    ret_type: RelayType | None = None
    attrs: Mapping[str, AttributeValue] = field(default_factory=dict)


Expression = Var | GlobalVar | Constant | Call | Tuple | TupleGetItem | Let | If | Function

EXPRESSIONS = (Var, GlobalVar, Constant, Call, Tuple, TupleGetItem, Let, If, Function)
"""The classes of :data:`Expression`, for `isinstance`."""

TYPES = (TensorType, TupleType, FuncType)
"""The classes of :data:`RelayType`, for `isinstance`."""

AttributeValue = (
    None | bool | int | float | str | tuple["AttributeValue", ...] | Mapping[str, "AttributeValue"] | Constant
)
"""The value of an attribute.  Lists are tuples; None is `None`, and `?` within a list."""


@dataclass(frozen=True, slots=True, repr=False)
class Module:
    """A Relay module: its functions by name, and what its file says of itself, such as the version."""

    functions: Mapping[str, Function]
    metadata: Mapping[str, AttributeValue] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Module {', '.join('@' + name for name in self.functions)}>"


def children(expression: Expression) -> tuple[Expression, ...]:
    """The operands of an expression, in the order in which they are evaluated; variables it binds are not."""
    if isinstance(expression, Call):
        if isinstance(expression.op, str):
            return expression.args
        return (*expression.args, expression.op)
    if isinstance(expression, Tuple):
        return expression.fields
    if isinstance(expression, TupleGetItem):
        return (expression.tuple_value,)
    if isinstance(expression, Let):
        return (expression.value, expression.body)
    if isinstance(expression, If):
        return (expression.condition, expression.true_branch, expression.false_branch)
    if isinstance(expression, Function):
        return (expression.body,)
    return ()


def post_order(root: Expression) -> Iterator[Expression]:
    """Every expression reachable from `root` once, operands before their users, without recursion."""
    finished: set[int] = set()
    opened: set[int] = set()
    stack = [root]
    while stack:
        expression = stack[-1]
        key = id(expression)
        if key in finished:
            stack.pop()
        elif key in opened:
            stack.pop()
            finished.add(key)
            yield expression
        else:
            opened.add(key)
            stack.extend(operand for operand in reversed(children(expression)) if id(operand) not in finished)


def module_of_expression(expression: Expression) -> Module:
    """The module whose `main` is a function, or computes an expression of its free variables."""
    if not isinstance(expression, Function):
        expression = Function(free_variables(expression), expression)
    return Module({"main": expression})


def free_variables(expression: Expression) -> tuple[Var, ...]:
    """The variables that an expression uses and does not bind, in the order of their first use."""
    used: dict[Var, None] = {}
    bound: set[Var] = set()
    for part in post_order(expression):
        if isinstance(part, Var):
            used[part] = None
        elif isinstance(part, Let):
            bound.add(part.var)
        elif isinstance(part, Function):
            bound.update(part.params)
    return tuple(variable for variable in used if variable not in bound)
