"""Casts to wider types, made where they are read."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Expression, dtype_of, operator_name, rebuild_functions, value_of, with_operands
from relay_layout.ops.table import TABLE


def canonicalize_casts(module: tvm.IRModule) -> tvm.IRModule:
    """A cast to a dtype of more bits for each elementwise operator that reads it.

    Each kernel can then read the narrow tensor, where one cast for all writes the wide one to memory.
    """
    module = relax.transform.Normalize()(module)
    return rebuild_functions(module, lambda function: _Copier().visit_expr(function))


_ELEMENTWISE = TABLE["add"]


@mutator
class _Copier(PyExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self._read: set[relax.Var] = set()

    def visit_call_(self, call: relax.Call) -> Expression:
        """An elementwise operator with casts of its own; other calls only get their new arguments."""
        call = super().visit_call_(call)
        if TABLE.get(operator_name(call)) is not _ELEMENTWISE:
            return call
        operands = [self._own(operand) for operand in call.args]
        return with_operands(call, operands)

    def _own(self, operand: Expression) -> Expression:
        cast = value_of(self, operand)
        if cast is None or operator_name(cast) != "astype":
            return operand
        if tvm.DataType(dtype_of(cast.args[0])).bits >= tvm.DataType(dtype_of(cast)).bits:
            return operand
        if operand not in self._read:
            self._read.add(operand)
            return operand
        return self.builder_.emit(with_operands(cast, cast.args))
