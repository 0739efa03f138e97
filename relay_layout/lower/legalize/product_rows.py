"""Products of few rows for each of many leading places, as sequence-first transformers have, as one matrix.

A kernel reads the weights once for the rows along the last axis but one: of [S, 1, C] for each of S rows.
"""

from math import prod

import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    is_static,
    operator_name,
    rebuild_functions,
    shape_of,
    with_operands,
)
from relay_layout.lower.row_mutator import RowMutator

ENOUGH_ROWS = 64
"""So many rows are multiplied as fast as any number: measured on a Zen 4, of [S, W, 256] by 2048 columns, W
of 1, 2 and 49 take 4.6, 1.6 and 1.05 times as long as one matrix."""


def multiply_as_rows(module: tvm.IRModule) -> tvm.IRModule:
    """The module with products of [..., few, C] by constant matrices as products of [rows, C].

    What is elementwise behind them is computed of rows as well, so that it stays with its product.
    """
    return rebuild_functions(module, lambda function: _Rows().visit_expr(function))


@mutator
class _Rows(RowMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        rows = self._product(call) if operator_name(call) == "matmul" else self.elementwise(call)
        return call if rows is None else self.view(call, rows)

    def _product(self, call: relax.Call) -> relax.Call | None:
        if not _is_of_few_rows(call):
            return None
        data, weight = call.args
        return with_operands(call, [self.rows_of(data), weight])

    def new_rows(self, data: Expression) -> Expression:
        *outer, columns = shape_of(data) or ()
        if isinstance(data, Constant):
            return constant(constant_array(data).reshape(-1, columns))
        return self.builder_.emit(relax.op.reshape(data, (prod(outer), columns)), "rows")

    def broadcast(self, operand: Expression) -> Expression | None:
        if not isinstance(operand, Constant):
            return None
        array = constant_array(operand)
        return constant(array.reshape(array.shape[-1:]))


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
