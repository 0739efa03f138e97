"""One call of a Relay operator: checked against its row, and emitted as Relax."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError, RelayLayoutError
from relay_layout.ir import Expression
from relay_layout.relay.importing.types import check_size, show, to_relay
from relay_layout.relay.operators import carried, did_you_mean
from relay_layout.relay.operators.agreement import agreed
from relay_layout.relay.operators.attributes import complete
from relay_layout.relay.operators.operator import Operator, Scope
from relay_layout.relay.operators.table import TABLE
from relay_layout.relay.syntax.relay_types import RelayType, TensorType
from relay_layout.relay.syntax.tree import AttributeValue

_FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    KeyError,
    IndexError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What TVM and compositions raise for operands and attributes that do not fit one another."""


class Operations:
    """Emits operators into the open block of a builder."""

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self.scope = Scope(builder)
        self.count = 0

    def emit(
        self, name: str, operands: Sequence[Expression], attributes: Mapping[str, AttributeValue]
    ) -> Expression:
        """The typed value of a call. ModelError, without a place, for what does not fit the operator."""
        row = _row(name)
        self.count += 1
        _check_operands(row, operands)
        given = complete(name, row.attributes, attributes)
        try:
            if row.agreement is not None:
                operands = agreed(self.scope.builder, operands, row.agreement, given, self.scope.equalities)
            if row.carried:
                call = carried.call(row, list(operands), given)
            else:
                call = row.build(self.scope, operands, given)
        except RelayLayoutError as error:
            raise ModelError(f"{name}: {error}") from None
        except _FAILURES as error:
            raise ModelError(f"{name} of {_shapes(operands)}: {reason(error)}") from None
        try:
            value = self._settled(call)
        except (RelayLayoutError, *_FAILURES) as error:
            raise ModelError(f"{name} of {_shapes(operands)}: {reason(error)}") from None
        if isinstance(value.ty, relax.TensorType) and value.ty.shape is None:
            raise ModelError(
                f"{name} of {_shapes(operands)}: the shape of the result depends on dimensions that are "
                "unknown; give the shapes of the inputs"
            )
        check_size(to_relay(value.ty, f"the result of {name}"), f"the result of {name}")
        return value

    def operand_types(
        self, name: str, types: Sequence[RelayType | None], attributes: Mapping[str, AttributeValue]
    ) -> Mapping[int, RelayType]:
        """Types of the operands that have none, as far as the operator tells them."""
        row = _row(name)
        if row.operand_types is None:
            return {}
        try:
            return row.operand_types(types, complete(name, row.attributes, attributes))
        except _FAILURES as error:
            raise ModelError(f"{name}: {reason(error)}") from None

    def _settled(self, expression: Expression) -> Expression:
        if isinstance(expression, relax.Tuple):
            return self.scope.builder.normalize(
                relax.Tuple([self._settled(entry) for entry in expression.fields])
            )
        return self.scope.emit(expression)


def _shapes(operands: Sequence[Expression]) -> str:
    return ", ".join(show(to_relay(operand.ty)) for operand in operands) or "nothing"


def _row(name: str) -> Operator:
    row = TABLE.get(name)
    if row is None:
        raise ModelError(f"there is no operator '{name}'{did_you_mean(name)}")
    return row


def _check_operands(row: Operator, operands: Sequence[Expression]) -> None:
    count = len(operands)
    if not row.fewest_operands <= count <= row.most_operands:
        wanted = ", ".join(name.strip("*?") for name in row.operands) or "nothing"
        raise ModelError(f"{row.name} takes {wanted}; it is given {count} operand{'' if count == 1 else 's'}")
    for name, operand in zip(row.operands, operands, strict=False):
        kind = to_relay(operand.ty, f"operand '{name.strip('*?')}' of {row.name}")
        if isinstance(kind, TensorType) == name.startswith("*"):
            wanted = "a tuple" if name.startswith("*") else "a tensor"
            raise ModelError(f"{row.name}: operand '{name.strip('*?')}' is {wanted}, not {show(kind)}")


def reason(error: Any) -> str:
    """The line of an error that says what is wrong, without TVM's frames and notation."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    for line in str(error).splitlines():
        line = line.strip().split("Check failed: ", 1)[-1]
        if line and not line.startswith(("File ", "Traceback", "[", "---")):
            line = _OPERATOR.sub("", line)
            line = _INTEGER.sub(r"\1", line).replace("R.shape(", "(")
            return line[:1].lower() + line[1:200]
    return type(error).__name__


_OPERATOR = re.compile(r"(In )?ir\.Op\(.*?support_level=\d+\),? ?")
_INTEGER = re.compile(r"T\.int64\((-?\d+)\)")
