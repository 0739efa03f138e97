"""Operators that Relax lacks, carried in Relax modules under Relay's own names.

Each is registered with TVM as ``relay.<name>``. What it stands for, in operators that Relax has, gives its
type and replaces it in :func:`decompose`; both come from the one function that its row names.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.ir import Op
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Expression, visit_functions
from relay_layout.relay.operators.attributes import OPEN, Attributes, declared
from relay_layout.relay.operators.direct import plain
from relay_layout.relay.operators.operator import Operator, Scope

PREFIX = "relay."

_ROWS: dict[str, Operator] = {}


def register(row: Operator) -> None:
    """Make the operator of a row known to TVM: its operands and how to infer its type.

    A later row of the same name takes the place of an earlier one.
    """
    name = f"{PREFIX}{row.name}"
    _ROWS[name] = row
    if name in Op.list_op_names():
        return
    tvm.ir._ffi_api.RegisterOp(name, f"Relay's {row.name}")
    operator = Op.get(name)
    fixed = row.fewest_operands == row.most_operands and not row.is_code
    operator.set_num_inputs(row.most_operands if fixed else -1)
    for operand in row.operands:
        operator.add_argument(operand.strip("*?"), "Expr", "")
    operator.set_attr("FPurity", True)
    operator.set_attr("FInferType", _infer_type)
    if row.is_code:
        operator.set_attr("FLegalize", _legalize)


def row_of(expression: Expression) -> Operator | None:
    """The row of a carried call, None for anything else."""
    if isinstance(expression, relax.Call) and isinstance(expression.op, Op):
        return _ROWS.get(str(expression.op.name))
    return None


def call(row: Operator, operands: list[Expression], attributes: Mapping[str, Any]) -> relax.Call:
    """A call that carries the operator with its complete attributes."""
    fields = {name: value for name, value in attributes.items() if value is not None}
    return relax.Call(Op.get(f"{PREFIX}{row.name}"), operands, tvm.ir.make_node("ir.DictAttrs", **fields))


class CarriedForm:
    """An operator that Relax has, in a form that Relax lacks: carried, beside the row that has the rest.

    Called with operands and attributes, it gives the call that carries them.
    """

    def __init__(self, name: str, operands: str, attributes: str | None, build: Any, **row: Any) -> None:
        self.row = Operator(name, tuple(operands.split()), build, attributes, carried=True, **row)
        register(self.row)

    def __call__(self, operands: Sequence[Expression], attributes: Mapping[str, Any]) -> relax.Call:
        return call(self.row, list(operands), attributes)


def attributes_of(expression: relax.Call) -> Attributes:
    """The complete attributes of a carried call."""
    row = _ROWS[str(expression.op.name)]
    held = dict(expression.attrs.items()) if expression.attrs is not None else {}
    names = held if row.attributes == OPEN else declared(row.attributes)
    return Attributes({name: plain(held.get(name)) for name in names})


def decompose(module: tvm.IRModule, where: Callable[[relax.Call], bool] = lambda call: True) -> tvm.IRModule:
    """The module with carried operators, those that ``where`` takes, replaced by what they stand for."""
    # What operators stand for may come with functions of its own.
    return visit_functions(_Decomposition(module, where), module)


@mutator
class _Decomposition(PyExprMutator):
    """Replaces carried calls, binding by binding."""

    def __init__(self, module: tvm.IRModule, where: Callable[[relax.Call], bool]) -> None:
        super().__init__(module)
        self.where = where

    def visit_call_(self, call: relax.Call) -> Expression:
        """What the operator stands for."""
        call = super().visit_call_(call)
        row = row_of(call)
        if row is None or row.is_code or not self.where(call):
            return call
        return row.build(Scope(self.builder_), list(call.args), attributes_of(call))


def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """The code that an operator stands for."""
    row = _ROWS[str(call.op.name)]
    return row.build(Scope(builder), list(call.args), attributes_of(call))


def _infer_type(call: relax.Call, builder: relax.BlockBuilder) -> Any:
    """The type of what the operator stands for, found on a builder of its own where its row has no rule."""
    row = _ROWS[str(call.op.name)]
    if row.result_type is not None:
        return row.result_type([argument.ty for argument in call.args], attributes_of(call))
    own = relax.BlockBuilder()
    operands = [_stand_in(argument) for argument in call.args]
    own.begin_scope([operand for operand in operands if isinstance(operand, relax.Var)])
    own._begin_binding_block()
    try:
        return own.emit(row.build(Scope(own), operands, attributes_of(call))).ty
    finally:
        # TVM complains aloud about a builder that is dropped with blocks open.
        own._end_block()
        own.end_scope()


def _stand_in(argument: Expression) -> Expression:
    """A parameter of the argument's type; constants stay, for their values may matter."""
    if isinstance(argument, relax.Var):
        return relax.Var("operand", argument.ty)
    return argument
