"""The syntax tree of Relay modules.

Expressions form a graph: a subexpression that is used twice is one object, and objects are told apart by
identity, never by value. Global variables are plain values, like types. Nothing here recurses, because a
network is a chain of thousands of nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from relay_layout.relay.syntax.relay_types import RelayType

MAX_EXPRESSION_NESTING = 200
"""How deep Relay text may nest parentheses, calls, functions and branches. Chains of ``%n = ...;`` and of
``let`` have no limit."""


class Span(NamedTuple):
    """Where something stands in its source text; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Meaning:
    """What scripts ask of expressions and only the operators, which need TVM, can tell.

    ``defaults_of`` gives the attributes of an operator that have a declared default, with it;
    ``operand_beside`` a number or an array as an operand beside an expression, NotImplemented for other
    things; ``type_of`` an expression's type, ``to_relax_function`` the Relax function of its free variables,
    and ``astext`` its Relay text, without large constants where the second argument is false.
    """

    defaults_of: Callable[[str], Mapping[str, AttributeValue]]
    operand_beside: Callable[[Expression, Any], Any]
    type_of: Callable[[Expression], RelayType]
    to_relax_function: Callable[[Expression], Any]
    astext: Callable[[Expression, bool], str]


_meaning: Callable[[], Meaning]


def tell_meaning(load: Callable[[], Meaning]) -> None:
    """Say where the meaning of expressions comes from: ``load`` is called whenever a script asks for it."""
    global _meaning
    _meaning = load


class OperatorName(str):
    """The name of an operator, which scripts also read as ``call.op.name``.

    ``isinstance(call.op, tvm.ir.Op)``, by which they tell operators from functions, holds.
    """

    __slots__ = ()

    def _shown_class(self) -> type:
        # Whoever asks for TVM's class has loaded TVM, which reading files does without.
        tvm = sys.modules.get("tvm")
        shown: type = OperatorName if tvm is None else tvm.ir.Op
        return shown

    __class__ = property(_shown_class)

    @property
    def name(self) -> str:
        """The name as plain text."""
        return str(self)


class CallAttributes(Mapping[str, "AttributeValue"]):
    """The attributes of a call, those left at their default as well; ``given`` has those that it names.

    Equal are those with the same ones named, which a mapping of them may stand for.
    """

    __slots__ = ("_operator", "given")

    _operator: str
    given: dict[str, AttributeValue]

    def __init__(self, operator: str, given: Mapping[str, AttributeValue]) -> None:
        self._operator = operator
        self.given = dict(given.given if isinstance(given, CallAttributes) else given)

    def __getitem__(self, name: str) -> AttributeValue:
        return self.given[name] if name in self.given else _meaning().defaults_of(self._operator)[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**_meaning().defaults_of(self._operator), **self.given})

    def __len__(self) -> int:
        return len({**_meaning().defaults_of(self._operator), **self.given})

    def __eq__(self, other: object) -> bool:
        return self.given == (other.given if isinstance(other, CallAttributes) else other)

    def __repr__(self) -> str:
        return repr(self.given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "given":
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{self._operator} has no attribute '{name}'") from None

    def get_int(self, name: str) -> int:
        """One number."""
        value: Any = self[name]
        return int(value)

    def get_int_tuple(self, name: str) -> tuple[int, ...]:
        """A list of numbers."""
        values: Any = self[name]
        return tuple(int(value) for value in values)

    def get_str(self, name: str) -> str:
        """A text."""
        return str(self[name])


class Node:
    """What expressions have in common: how they show, and the operators that build new ones.

    Printed, one is its Relay text without version and large constants; the representation is short and does
    not descend into operands. ``==`` compares identity.
    """

    __slots__ = ("__weakref__",)

    # Arrays on the left side leave the operators to the expression on the right.
    __array_ufunc__ = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __str__(self) -> str:
        text = self.astext(show_meta_data=False)
        return text.partition("\n")[2].rstrip()

    def _binary(self, operator: str, other: Any, *, swapped: bool = False) -> Call:
        expression: Any = self
        if not isinstance(other, EXPRESSIONS):
            other = _meaning().operand_beside(expression, other)
            if other is NotImplemented:
                return NotImplemented
        return Call(operator, (other, expression) if swapped else (expression, other))

    def __add__(self, other: Any) -> Call:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Call:
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Any) -> Call:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Call:
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Call:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Call:
        return self._binary("multiply", other, swapped=True)

    def __truediv__(self, other: Any) -> Call:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Call:
        return self._binary("divide", other, swapped=True)

    def __lt__(self, other: Any) -> Call:
        return self._binary("less", other)

    def __gt__(self, other: Any) -> Call:
        return self._binary("greater", other)

    def __le__(self, other: Any) -> Call:
        return self._binary("less_equal", other)

    def __ge__(self, other: Any) -> Call:
        return self._binary("greater_equal", other)

    def __neg__(self) -> Call:
        expression: Any = self
        return Call("negative", (expression,))

    def __call__(self, *args: Any) -> Call:
        """A call of a function, with expressions for its parameters."""
        expression: Any = self
        return Call(expression, args)

    def astype(self, dtype: Any) -> Call:
        """The same values in another data type."""
        expression: Any = self
        return Call("cast", (expression,), {"dtype": str(dtype)})

    def astext(self, show_meta_data: bool = True) -> str:
        """Relay text of the expression, which ``relay.parse_expr`` reads, free variables declared first."""
        expression: Any = self
        return _meaning().astext(expression, show_meta_data)

    @property
    def checked_type(self) -> RelayType:
        """The type; ModelError where there is none. Every access asks for what is not known yet."""
        expression: Any = self
        return _meaning().type_of(expression)

    def __tvm_ffi_object__(self) -> Any:
        """TVM's functions take an expression as the Relax function of its free variables."""
        expression: Any = self
        return _meaning().to_relax_function(expression)


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GlobalVar(Node):
    """A reference to a function of the module, without the leading ``@``.

    Where TVM's modules expect their own, it is one: ``module[relay.GlobalVar("main")] = function``.
    """

    name: str
    _of_tvm: list[Any] = field(default_factory=list, init=False)

    def __repr__(self) -> str:
        return f"<GlobalVar {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalVar) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __tvm_ffi_object__(self) -> Any:
        """TVM's variable, the same whenever it is asked for: modules find functions by that."""
        if not self._of_tvm:
            self._of_tvm.append(sys.modules["tvm"].ir.GlobalVar(self.name))
        return self._of_tvm[0]

    def _shown_class(self) -> type:
        tvm = sys.modules.get("tvm")
        shown: type = GlobalVar if tvm is None else tvm.ir.GlobalVar
        return shown

    __class__ = property(_shown_class)

    @property
    def name_hint(self) -> str:
        """The name."""
        return self.name


class Values(np.ndarray):
    """An array that scripts also read as they read TVM's tensors. What is computed of it is numpy's own."""

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def numpy(self) -> np.ndarray:
        """The same values as an array of numpy's own."""
        return self.view(np.ndarray)

    asnumpy = numpy


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Node):
    """A tensor with its values."""

    data: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", self.data.view(Values))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Node):
    """A call of an operator (``op`` is its name) or of a function (``op`` is an expression).

    ``attrs.given`` has the attributes the source names, without those left at the operator's default.
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

    @property
    def type_args(self) -> tuple[RelayType, ...]:
        """None: rewriters hand on what a call was made of, and there are no type parameters."""
        return ()


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
    """``let var = value; body``. A function may refer to the variable it is bound to."""

    var: Var
    value: Expression
    body: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Node):
    """``if (condition) {true_branch} else {false_branch}``."""

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
"""The classes of :data:`Expression`, for ``isinstance``."""

AttributeValue = (
    None | bool | int | float | str | tuple["AttributeValue", ...] | Mapping[str, "AttributeValue"] | Constant
)
"""The value of an attribute. Lists are tuples; None is ``None``, and ``?`` within a list."""


@dataclass(frozen=True, slots=True, repr=False)
class Module:
    """A Relay module: its functions by name, and what its file says of itself, such as the version."""

    functions: Mapping[str, Function]
    metadata: Mapping[str, AttributeValue] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Module {', '.join('@' + name for name in self.functions)}>"
