"""What passes share that compute tensors as rows: views of the rows, and what is elementwise behind them."""

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from relay_layout.extent_polynomials import provably_equal
from relay_layout.ir import (
    Expression,
    Extent,
    is_one,
    operator_name,
    shape_of,
    value_of,
    with_operands,
)
from relay_layout.ops import is_elementwise


class RowMutator(PyExprMutator):
    """Computes some tensors as rows, of which what they were are views, and what is elementwise with them.

    Rows end in the last dimension of their tensor. A subclass says which calls give rows, with :meth:`view`,
    and what becomes of tensors that are none.
    """

    def __init__(self, module: tvm.IRModule | None = None) -> None:
        super().__init__(module)
        self.forget()

    def new_rows(self, data: Expression) -> Expression:
        """A tensor that is no view of rows, in their form."""
        raise NotImplementedError

    def broadcast(self, operand: Expression) -> Expression | None:
        """What lies along the last dimension alone, as an operand of rows; None where it cannot be one."""
        raise NotImplementedError

    def is_joined(self, operand: Expression) -> bool:
        """Whether an operand that is no view of rows is better computed with its reader, as what it is."""
        return False

    def forget(self) -> None:
        """Begin a block, which sees nothing of what others compute."""
        self.made: set[relax.Var] = set()
        self.name = ""

    def visit_function_(self, function: relax.Function) -> relax.Function:
        self.forget()
        return super().visit_function_(function)

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        self.forget()
        rewritten = super().visit_dataflow_block_(block)
        self.forget()
        return rewritten

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self.name = binding.var.name
        super().visit_var_binding_(binding)

    def view(self, call: relax.Call, rows: Expression) -> relax.Call:
        """What ``call`` gives, as a view of ``rows``, which are bound under its name."""
        bound = self.builder_.emit(rows, self.name)
        self.made.add(bound)
        return relax.op.reshape(bound, relax.ShapeExpr(list(shape_of(call) or ())))

    def rows_of(self, data: Expression) -> Expression:
        """Those of which ``data`` is a view, or new ones."""
        made = self.made_of(data)
        return self.new_rows(data) if made is None else made

    def made_of(self, data: Expression) -> Expression | None:
        """The rows of which ``data`` is a view; None where it is none."""
        value = self.value_of(data)
        if value is None or operator_name(value) != "reshape":
            return None
        return value.args[0] if value.args[0] in self.made else None

    def value_of(self, data: Expression) -> Expression | None:
        """What a variable is bound to; None for parameters and for what is no variable."""
        return value_of(self, data)

    def elementwise(self, call: relax.Call) -> relax.Call | None:
        """The call on rows; None where it is not elementwise, reads none, or reads what fits none."""
        if not is_elementwise(operator_name(call)):
            return None
        if all(self.made_of(operand) is None for operand in call.args):
            return None
        operands = []
        for operand in call.args:
            fitting = self._fitting(operand, shape_of(call) or ())
            if fitting is None:
                return None
            operands.append(fitting)
        return with_operands(call, operands)

    def _fitting(self, operand: Expression, shape: Sequence[Extent]) -> Expression | None:
        """An operand of what has the ``shape``, for rows; None where it fits none."""
        extents = shape_of(operand) if isinstance(operand.ty, relax.TensorType) else ()
        if not extents:
            return operand if extents == () else None
        if provably_equal(extents, shape):
            return (
                None if self.made_of(operand) is None and self.is_joined(operand) else self.rows_of(operand)
            )
        return self.broadcast(operand) if all(map(is_one, extents[:-1])) else None
