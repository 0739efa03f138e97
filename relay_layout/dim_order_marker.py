"""``to_dim_order``: a change of memory order that a program asks for, as a call in a module.

It leaves every element where its index says, and says how the result is to lie. As a call of a packed
function it is ordinary Relax: printed, parsed, and run by a virtual machine in a process that has this
package, where it gives a copy of its operand, because a TVM tensor has one order only.
"""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Expression, operator_name, rebuild_functions

NAME = "relay_layout.to_dim_order"


def to_dim_order(value: Expression, order: Sequence[int]) -> relax.Call:
    """A call that gives ``value`` with its dimensions in ``order``, outermost in memory first."""
    return relax.op.call_pure_packed(NAME, value, relax.ShapeExpr(list(order)), ty_args=value.ty)


def order_asked(expression: Expression) -> tuple[int, ...] | None:
    """The order that a call of :func:`to_dim_order` asks for; None for anything else."""
    if operator_name(expression) != "call_pure_packed":
        return None
    if str(getattr(expression.args[0], "global_symbol", "")) != NAME:
        return None
    return tuple(int(axis) for axis in expression.args[2].values)


def without_markers(module: tvm.IRModule) -> tvm.IRModule:
    """The module with every :func:`to_dim_order` replaced by its operand."""
    return rebuild_functions(module, lambda function: _Remover().visit_expr(function))


@mutator
class _Remover(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        return call if order_asked(call) is None else call.args[1]


def _copy(value: Any, order: Any) -> Any:
    # Not the operand itself, whose memory is planned to be used again.
    return tvm.runtime.empty(value.shape, value.dtype).copyfrom(value)


tvm.register_global_func(NAME, _copy, override=True)
