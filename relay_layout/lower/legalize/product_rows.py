"""Products of few rows for each of many leading places, as sequence-first transformers have, as one matrix.

A kernel reads the weights once for the rows along the last axis but one: of [S, 1, C] for each of S rows.
"""

from math import prod

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    is_static,
    operator_name,
    rebuild_functions,
    same_extents,
    shape_of,
)
from relay_layout.ops import is_elementwise

ENOUGH_ROWS = 64
"""So many rows are multiplied as fast as any number: measured on a Zen 4, of [S, W, 256] by 2048 columns, W
of 1, 2 and 49 take 4.6, 1.6 and 1.05 times as long as one matrix."""


def multiply_as_rows(module: tvm.IRModule) -> tvm.IRModule:
    """The module with products of [..., few, C] by constant matrices as products of [rows, C].

    What is elementwise behind them is computed of rows as well, so that it stays with its product.
    """
    return rebuild_functions(module, lambda variable, function: _Rows().visit_expr(function))


@mutator
class _Rows(PyExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.made: set[relax.Var] = set()
        self.name = ""

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self.name = binding.var.name
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        name = operator_name(call)
        if name == "matmul" and _is_of_few_rows(call):
            data, weight = call.args
            return self._view(call, [self._rows_of(data), weight])
        operands = self._operands(call) if is_elementwise(name) else None
        return call if operands is None else self._view(call, operands)

    def _view(self, call: relax.Call, operands: list[Expression]) -> relax.Call:
        """The call of operands in rows, seen as what it was."""
        rows = self.builder_.emit(relax.Call(call.op, operands, call.attrs, call.ty_args), self.name)
        self.made.add(rows)
        return relax.op.reshape(rows, shape_of(call))

    def _operands(self, call: relax.Call) -> list[Expression] | None:
        """Those of an elementwise call in rows; None where none is made of rows, or one fits no rows."""
        if not any(self._source(operand) is not None for operand in call.args):
            return None
        shape, found = shape_of(call) or (), []
        for operand in call.args:
            extents = shape_of(operand)
            if extents is None or not extents:
                found.append(operand)
            elif same_extents(extents, shape):
                found.append(self._rows_of(operand))
            elif isinstance(operand, Constant) and set(extents[:-1]) <= {1}:
                found.append(constant(constant_array(operand).reshape(extents[-1:])))
            else:
                return None
        return found

    def _rows_of(self, data: Expression) -> Expression:
        source = self._source(data)
        if source is not None:
            return source
        *outer, columns = shape_of(data) or ()
        if isinstance(data, Constant):
            return constant(constant_array(data).reshape(-1, columns))
        return self.builder_.emit(relax.op.reshape(data, (prod(outer), columns)), "rows")

    def _source(self, data: Expression) -> Expression | None:
        """The rows that ``data`` are a view of."""
        view = self.lookup_binding(data) if isinstance(data, relax.Var) else None
        if view is None or operator_name(view) != "reshape" or view.args[0] not in self.made:
            return None
        same = shape_of(view.args[0])[-1:] == shape_of(data)[-1:]  # type: ignore[index]
        return view.args[0] if same else None


def _is_of_few_rows(product: relax.Call) -> bool:
    data, weight = product.args
    shape, matrix = shape_of(data), shape_of(weight)
    if (
        not isinstance(weight, Constant)
        or shape is None
        or matrix is None
        or len(matrix) != 2
        or len(shape) < 3
    ):
        return False
    *leading, rows, _ = shape
    most = ENOUGH_ROWS if is_static(shape) else 2
    return isinstance(rows, int) and rows < most and any(extent != 1 for extent in leading)


__all__ = ["multiply_as_rows"]
