"""The syntax tree of Relay modules.

Expressions form a graph: a subexpression that is used twice is one object, and objects are told apart by
identity, never by value.  Types and global variables are plain values.  Nothing here recurses, because a
network is a chain of thousands of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .node import CallAttributes, Node, OperatorName

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

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape where it is known in full; ValueError where it is not."""
        known = tuple(extent for extent in self.shape if extent is not None)
        if len(known) != len(self.shape):
            raise ValueError("the shape of a type has unknown dimensions")
        return known


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Node):
    """A local variable; each binding is its own object, so equal names do not mean the same variable."""

    name: str
    type: RelayType | None = None

    def __repr__(self) -> str:
        return f"<Var {self.name}>"

    @property
    def name_hint(self) -> str:
        """The name."""
        return self.name

    @property
    def type_annotation(self) -> RelayType | None:
        """The type it is declared with."""
        return self.type


@dataclass(frozen=True, slots=True, repr=False)
class GlobalVar(Node):
    """A reference to a function of the module, without the leading `@`."""

    name: str

    def __repr__(self) -> str:
        return f"<GlobalVar {self.name}>"

    @property
    def name_hint(self) -> str:
        """The name."""
        return self.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Node):
    """A tensor with its values."""

    data: np.ndarray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Node):
    """A call of an operator (`op` is its name) or of a function (`op` is an expression).

    `attrs` has the attributes the source names; those left at the operator's default are absent.
    """

    op: OperatorName | Expression
    args: tuple[Expression, ...]
    attrs: CallAttributes
    span: Span | None

    def __init__(
        self,
        op: str | Expression,
        args: Sequence[Expression],
        attrs: Mapping[str, AttributeValue] | None = None,
        span: Span | None = None,
    ) -> None:
        name = OperatorName(op) if isinstance(op, str) else op
        given = CallAttributes(name if isinstance(name, str) else "a function", attrs or {})
        for attribute, value in (("op", name), ("args", tuple(args)), ("attrs", given), ("span", span)):
            object.__setattr__(self, attribute, value)

    def __repr__(self) -> str:
        return f"<Call {self.op if isinstance(self.op, str) else repr(self.op)}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple(Node):
    """A tuple of expressions."""

    fields: tuple[Expression, ...]

    def __getitem__(self, index: int) -> Expression:
        """One of the fields, as scripts take it from a tuple that they made."""
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItem(Node):
    """One field of a tuple."""

    tuple_value: Expression
    index: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Node):
    """`let var = value; body`.  A function may refer to the variable it is bound to."""

    var: Var
    value: Expression
    body: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Node):
    """`if (condition) {true_branch} else {false_branch}`."""

    condition: Expression
    true_branch: Expression
    false_branch: Expression

    @property
    def cond(self) -> Expression:
        """The condition."""
        return self.condition


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function(Node):
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
