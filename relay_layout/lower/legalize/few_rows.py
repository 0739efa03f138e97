"""Products of few rows by a transposed activation, as of a decoder's new word by the keys of earlier words.

To transpose the keys for one row takes several times as long as the product; of each pair of rows the dot
product is computed instead.
"""

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Expression, dtype_of, operator_name, shape_of, value_of, visit_functions
from relay_layout.lower.fusion.patterns import PRIMITIVE
from relay_layout.lower.legalize.convolutions import call_compute
from relay_layout.targets import CpuTarget
from topi_ext.compute.row_dots import MOST_ROWS, row_dots
from topi_ext.ir import nodes_of

_DTYPE = "float32"


def multiply_by_rows(module: tvm.IRModule, target: CpuTarget) -> tvm.IRModule:
    """The module with dot products of rows in the place of such products, of a depth in whole vectors."""
    found = visit_functions(_ByRows(module, target), module, _may_have)
    return relax.transform.DeadCodeElimination()(found)


def _may_have(function: relax.Function) -> bool:
    if function.attrs and PRIMITIVE in function.attrs:
        return False
    return any(operator_name(call) == "permute_dims" for call in nodes_of(function.body, relax.Call))


@mutator
class _ByRows(PyExprMutator):
    def __init__(self, module: tvm.IRModule, target: CpuTarget) -> None:
        super().__init__(module)
        self.lanes = target.processor.lanes(4)
        self.in_pairs = target.precision == "bf16"

    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        if operator_name(call) != "matmul":
            return call
        left, right = call.args
        rows = self._transposed(right)
        if rows is None or rows.same_as(left) or not self._may_be_few(left) or not self._fill_vectors(rows):
            return call
        return call_compute(self.builder_, row_dots, "row_dots", left, rows)

    def _transposed(self, operand: Expression) -> Expression | None:
        """What an operand is the transpose of, in each of its last two axes; None for others."""
        value = value_of(self, operand)
        if value is None or operator_name(value) != "permute_dims" or value.attrs.axes is None:
            return None
        axes = [int(axis) for axis in value.attrs.axes]
        rank = len(axes)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        return value.args[0] if [axis % rank for axis in axes] == swapped else None

    def _may_be_few(self, operand: Expression) -> bool:
        """Whether an operand has few rows, or a number of them that is not known."""
        shape: Any = shape_of(operand) or ()
        if len(shape) < len("RC") or dtype_of(operand) != _DTYPE:
            return False
        if not isinstance(shape[-2], int):
            # Many rows are better multiplied in pairs, of which the transpose is made anyway.
            return not self.in_pairs
        return shape[-2] <= MOST_ROWS

    def _fill_vectors(self, rows: Expression) -> bool:
        """Whether there is a kernel for dot products with ``rows``, which are whole vectors, and as many as a
        vector has lanes.
        """
        number, depth = (shape_of(rows) or (0, 0))[-2:]
        if not isinstance(depth, int) or depth == 0 or depth % self.lanes:
            return False
        return not isinstance(number, int) or number >= self.lanes
