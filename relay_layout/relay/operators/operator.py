"""One Relay operator: a row of the table, and what its functions are given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, tirx

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, constant, dtype_of, is_static, shape_of
from relay_layout.relay.operators.agreement import Agreement, Equalities
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.syntax.relay_types import RelayType

MOST_PARTS = 10_000
"""How many tensors an operator may give or take."""


class Scope:
    """Where the operators of a composition go; hands out typed values.

    Compositions mostly nest calls and need nothing of it; :meth:`emit` gives an intermediate value
    whose type the composition then reads.
    """

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self.builder = builder
        self.equalities = Equalities()

    def emit(self, expression: Expression) -> Expression:
        """A value with its type; what is a value already is returned as it is."""
        if isinstance(expression, relax.Var) or not isinstance(expression, relax.Call | relax.TupleGetItem):
            return expression
        return self.builder.emit(expression)


Build = Callable[[Scope, Sequence[Expression], Attributes], Expression]
"""Operands (typed Relax values; a tuple operand is a ``relax.Tuple`` or a variable of tuple type) and
complete attributes to a Relax expression that computes the operator."""

ResultType = Callable[[Sequence[Any], Attributes], Any]
"""Relax types of the operands and complete attributes to the Relax type of the result."""

Export = Callable[[relax.Call], "Exported | Mapping[str, Any] | None"]
"""A Relax call back to Relay. A mapping gives the attributes where the operands are the call's own;
None says that this call is not the operator, or has no form in Relay."""

OperandTypes = Callable[[Sequence["RelayType | None"], Attributes], Mapping[int, RelayType]]
"""Types of operands that were declared without one, from the types of the others, by position."""


@dataclass(frozen=True)
class Exported:
    """A Relax call as a Relay call of the row's operator: which operands it takes, and its attributes.

    Operands are Relax expressions; a numpy array stands for a constant that the call held elsewhere.
    """

    operands: Sequence[Expression | np.ndarray]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Operator:
    """How one Relay operator is called, and what computes it in Relax.

    ``operands`` names what a call takes, in order; one name that starts with ``*`` is a tuple of any
    number, a name that ends in ``?`` may be left out. ``signature`` is the Python function's parameter
    list as Relay has it, where it is not the operands followed by the attributes with their defaults;
    ``prepare`` then turns its arguments into operands and attributes. ``attributes`` names their
    declaration. ``results`` is how many tensors a call gives, or a function that tells it from operands (as
    the Python function got them) and attributes; None for one tensor that is no tuple.

    Relax calls that ``relax_names`` lists print as this operator, by way of ``export``. An operator
    that is ``carried`` is an operator of its own in the Relax module, named ``relay.`` and its name, and
    ``build`` says what it stands for. ``agreement`` tells which unknown extents of its operands are equal.
    """

    name: str
    operands: tuple[str, ...]
    build: Build
    attributes: str | None = None
    signature: str | None = None
    prepare: Callable[..., tuple[Sequence[Any], Mapping[str, Any]]] | None = None
    results: int | Callable[[Sequence[Any], Mapping[str, Any]], int | None] | None = None
    relax_names: tuple[str, ...] = ()
    export: Export | None = None
    operand_types: OperandTypes | None = None
    carried: bool = False
    is_code: bool = False
    result_type: ResultType | None = None
    agreement: Agreement | None = None

    @property
    def fewest_operands(self) -> int:
        return sum(not name.endswith("?") for name in self.operands)

    @property
    def most_operands(self) -> int:
        return len(self.operands)


def topi_build(function: Any, *names: str) -> Any:
    """A build that computes with TE: ``function`` of the operands and of the attributes named."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        return scope.builder.call_te(function, *operands, *(given[name] for name in names))

    return build


def extents(value: Expression) -> tuple[Any, ...]:
    """The extents of a typed value: ints where static. ValueError where the rank is not known."""
    shape = shape_of(value)
    if shape is None:
        raise ValueError("an operand's rank is not known")
    return shape


def static_extents(value: Expression) -> tuple[int, ...]:
    """The extents of a value, all of which must be known."""
    shape = extents(value)
    if not is_static(shape):
        raise ValueError(f"an operand of shape ({', '.join(map(str, shape))}) needs a static shape")
    return shape


def rank_of(value: Expression) -> int:
    """How many dimensions a typed value has. ValueError where that is not known."""
    return len(extents(value))


def fields_of(value: Expression) -> list[Expression]:
    """The tensors of a tuple operand, of which there is at least one."""
    if isinstance(value, relax.Tuple):
        fields = list(value.fields)
    else:
        fields = [relax.TupleGetItem(value, index) for index in range(len(value.ty.fields))]
    if not 1 <= len(fields) <= MOST_PARTS:
        raise ModelError(f"takes from 1 to {MOST_PARTS} tensors, not {len(fields)}")
    return fields


def numbers_of(value: Expression) -> tuple[int, ...] | None:
    """The entries of a Relax tuple or shape that are all known; None otherwise."""
    entries = getattr(value, "fields", None)
    if entries is None:
        entries = getattr(value, "values", None)
    if entries is None or not all(isinstance(entry, tirx.IntImm) for entry in entries):
        return None
    return tuple(int(entry) for entry in entries)


def scalar(number: float, dtype: str) -> Expression:
    """A constant without dimensions."""
    return constant(np.array(number, dtype))


def scalar_like(number: float, value: Expression) -> Expression:
    """A constant without dimensions, of the dtype of ``value``."""
    return scalar(number, dtype_of(value))


def along(vector: Expression, axis: int, rank: int) -> Expression:
    """A vector shaped to broadcast along ``axis`` of ``rank`` dimensions, with expand_dims alone."""
    axis %= rank
    following = rank - 1 - axis
    return relax.op.expand_dims(vector, list(range(1, 1 + following))) if following else vector


__all__ = [
    "MOST_PARTS",
    "Attributes",
    "Build",
    "Export",
    "Exported",
    "OperandTypes",
    "Operator",
    "ResultType",
    "Scope",
    "along",
    "extents",
    "fields_of",
    "numbers_of",
    "rank_of",
    "scalar",
    "scalar_like",
    "static_extents",
    "topi_build",
]
