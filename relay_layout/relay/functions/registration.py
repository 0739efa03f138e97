"""``relay.op.register``: operators of the caller's own, beside those of the table."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import tvm
from tvm import relax, te

from relay_layout.errors import ModelError
from relay_layout.ir import Expression
from relay_layout.relay.importing.types import show, to_relax, to_relay
from relay_layout.relay.operators import OPEN, TABLE, Attributes, carried
from relay_layout.relay.operators.operator import Operator, Scope
from relay_layout.relay.registries.asking import ask
from relay_layout.relay.syntax.lexer import OPERATOR_NAME
from relay_layout.relay.syntax.relay_types import RelayType, TensorType, TupleType
from relay_layout.relay.syntax.tree import OperatorName

TypeRelation = Callable[[Sequence[RelayType], Attributes], "RelayType | None"]
"""Types of the operands and the attributes of a call to the type of its result."""

Compute = TypeVar("Compute", bound=Callable[..., Any])
"""``f(attrs, inputs, out_type)``: tensors of ``tvm.te`` to those of the result, one or a list of them."""


@dataclass
class _Definition:
    """What was told of an operator so far."""

    name: str
    named: list[str] = field(default_factory=list)
    count: int = 0
    relation: TypeRelation | None = None
    compute: Callable[..., Any] | None = None
    level: int = -1

    def publish(self) -> None:
        """Put the operator as it is now into the table, in place of what it was."""
        unnamed = (f"input{position}" for position in range(len(self.named), self.count))
        row = Operator(
            self.name,
            (*self.named, *unnamed),
            self._build,
            OPEN,
            carried=True,
            is_code=True,
            result_type=self._result_type if self.compute is None else None,
        )
        TABLE[self.name] = row
        carried.register(row)

    def _build(self, scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        if self.compute is None:
            raise ModelError(
                f"{self.name} has nothing that computes it; relay.op.register_compute('{self.name}', f) with "
                "f(attrs, inputs, out_type) tells it"
            )
        types = [operand.ty for operand in operands]
        expected = self._related(types, attributes)
        compute, what = self.compute, f"the compute of {self.name}"

        def computed(*inputs: te.Tensor) -> list[te.Tensor]:
            results = ask(what, ModelError, compute, attributes, list(inputs), expected)
            tensors = [results] if isinstance(results, te.Tensor) else results
            if not isinstance(tensors, list | tuple | tvm.ir.Array) or not tensors:
                raise ModelError(f"{what} returned {results!r}, not tensors of tvm.te")
            return list(tensors)

        call = scope.builder.call_te(computed, *operands, primfunc_name_hint=self.name.replace(".", "_"))
        given = to_relay(call.ty_args[0], f"the result of {self.name}")
        if expected is not None and not _agree(expected, given):
            raise ModelError(f"{what} gives {show(given)} where its type relation tells {show(expected)}")
        return call

    def _result_type(self, types: Sequence[Any], attributes: Attributes) -> Any:
        told = self._related(types, attributes)
        if told is None:
            raise ModelError(
                f"the type of what {self.name} gives is not known; add_type_rel or relay.op.register_compute "
                "tells it"
            )
        # The same symbols, which Relay's types do not have.
        same = [known for known in types if to_relay(known) == told]
        if not same and isinstance(told, TensorType) and None in told.shape:
            return relax.TensorType(dtype=told.dtype, ndim=len(told.shape))
        return same[0] if same else to_relax(told, f"the result of {self.name}")

    def _related(self, types: Sequence[Any], attributes: Attributes) -> RelayType | None:
        if self.relation is None:
            return None
        told = ask(
            f"the type relation of {self.name}",
            ModelError,
            self.relation,
            [to_relay(known) for known in types],
            attributes,
        )
        if told is not None and not isinstance(told, TensorType | TupleType):
            raise ModelError(f"the type relation of {self.name} returned {told!r}, which is no type")
        return told


_DEFINITIONS: dict[str, _Definition] = {}


class RegisteredOperator(OperatorName):
    """An operator of the caller's, which is told what it takes and gives as Relay's ``Op`` was."""

    __slots__ = ()

    def add_argument(self, name: str, type: str = "Tensor", description: str = "") -> None:
        """One more operand; ``type`` and ``description`` were for Relay's documentation."""
        definition = _DEFINITIONS[self]
        definition.named.append(name)
        definition.publish()

    def set_num_inputs(self, n: int) -> None:
        """How many operands a call has, where they are not named one by one."""
        definition = _DEFINITIONS[self]
        definition.count = n
        definition.publish()

    def add_type_rel(self, rel_name: str, type_rel_func: TypeRelation | None = None) -> None:
        """``type_rel_func(arg_types, attrs)`` gives the type of the result; without it, ``rel_name`` does.

        "Identity" is the type of the first operand, "Broadcast" that of two by numpy's rules. An operator
        with a compute needs no relation. ModelError for other names without a function.
        """
        definition = _DEFINITIONS[self]
        relation = type_rel_func or _RELATIONS.get(rel_name)
        if relation is None:
            raise ModelError(
                f"{self}: there is no type relation '{rel_name}'; give a function of (arg_types, attrs), or "
                f"one of {', '.join(_RELATIONS)}"
            )
        definition.relation = relation
        definition.publish()

    def set_support_level(self, level: int) -> None:
        """Taken as in Relay, whose documentation was sorted by it."""

    def set_attrs_type_key(self, key: str) -> None:
        """Taken as in Relay; calls have attributes of any name here."""


def register(op_name: str, describe: str = "") -> RegisteredOperator:
    """A new operator, which calls, layout callbacks, text and compilation then know under its name.

    ``relay.Call(relay.op.get(op_name), [x], {"beta": 1.5})`` is a call of it. One of the caller's with that
    name is forgotten. ModelError for a name that is Relay's, or that its text cannot hold.
    """
    if not re.fullmatch(OPERATOR_NAME, op_name):
        raise ModelError(
            f"'{op_name}' cannot name an operator: it takes letters, digits, '_', and dots between"
        )
    if op_name in TABLE and op_name not in _DEFINITIONS:
        raise ModelError(f"'{op_name}' is an operator of Relay's; give yours another name")
    definition = _DEFINITIONS[op_name] = _Definition(op_name)
    definition.publish()
    return RegisteredOperator(op_name)


def registered(op_name: str) -> RegisteredOperator | None:
    """The operator of the caller's with this name, if there is one."""
    return RegisteredOperator(op_name) if op_name in _DEFINITIONS else None


def register_compute(op_name: str, compute: Compute | None = None, level: int = 10) -> Any:
    """Register ``f(attrs, inputs, out_type)`` for an operator of the caller's; a decorator without ``f``.

    ``inputs`` are tensors of ``tvm.te``, ``out_type`` what the type relation told, None without one. The
    result is a tensor or a list of them. The highest level holds, of equal ones the last. ModelError for an
    operator that :func:`register` did not make: those of Relay have kernels.
    """
    definition = _DEFINITIONS.get(op_name)
    if definition is None:
        has = "has its kernels here" if op_name in TABLE else "is not registered; relay.op.register does"
        raise ModelError(f"compute for '{op_name}': this operator {has}")

    def add(function: Compute) -> Compute:
        if level >= definition.level:
            definition.compute, definition.level = function, level
            definition.publish()
        return function

    return add if compute is None else add(compute)


def _agree(expected: RelayType, given: RelayType) -> bool:
    """Whether types are the same but for extents that one of them does not know."""
    if isinstance(expected, TupleType) and isinstance(given, TupleType):
        fields = zip(expected.fields, given.fields, strict=True)
        return len(expected.fields) == len(given.fields) and all(_agree(*pair) for pair in fields)
    if not isinstance(expected, TensorType) or not isinstance(given, TensorType):
        return False
    return (expected.dtype, len(expected.shape)) == (given.dtype, len(given.shape)) and all(
        a == b or a is None or b is None for a, b in zip(expected.shape, given.shape, strict=True)
    )


def _broadcast(types: Sequence[RelayType], attributes: Attributes) -> RelayType:
    a, b = types
    assert isinstance(a, TensorType) and isinstance(b, TensorType)
    rank = max(len(a.shape), len(b.shape))
    padded = [(1,) * (rank - len(tensor.shape)) + tuple(tensor.shape) for tensor in (a, b)]
    shape: list[int | None] = []
    for first, second in zip(*padded, strict=True):
        if first == 1 or first == second:
            shape.append(second)
        elif second == 1:
            shape.append(first)
        elif first is None or second is None:
            shape.append(first if second is None else second)
        else:
            raise ValueError(f"{show(a)} and {show(b)} do not broadcast")
    return TensorType(tuple(shape), a.dtype)


_RELATIONS: dict[str, TypeRelation] = {
    "Identity": lambda types, attributes: types[0],
    "Broadcast": _broadcast,
}
