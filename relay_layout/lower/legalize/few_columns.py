"""Products by matrices of few columns, as of many rows by one vector, which are no weights: dot products.

No vector of columns is there to be computed; those along the depth are, of a copy of the columns as rows.
"""

from tvm import relax, topi

from relay_layout.ir import Expression, dtype_of, shape_of
from relay_layout.lower.legalize.convolutions import call_compute
from topi_ext.compute.row_dots import dots, dots_with_vector
from topi_ext.schedule.cpu.loops import LEAST_VECTOR

_SHORTEST = 16
"""The least depth whose vectors make up for the copy, and for adding up their lanes."""


def few_columns_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression | None:
    """A product of float32 (..., rows, depth) by (..., depth, columns) or (depth,); None for many columns or
    a short depth.
    """
    left, right = call.args
    rows, matrix = shape_of(left), shape_of(right)
    if rows is None or matrix is None or len(rows) < 2 or {dtype_of(left), dtype_of(right)} != {"float32"}:
        return None
    columns = matrix[-1] if len(matrix) > 1 else 1
    depth = rows[-1]
    if not isinstance(columns, int) or columns >= LEAST_VECTOR:
        return None
    if isinstance(depth, int) and depth < _SHORTEST:
        return None
    if len(matrix) == 1:
        return call_compute(builder, dots_with_vector, "dots", left, right)
    order = [*range(len(matrix) - 2), len(matrix) - 1, len(matrix) - 2]
    turned = builder.emit(builder.call_te(topi.transpose, right, order, primfunc_name_hint="transpose"))
    return call_compute(builder, dots, "dots", left, turned)
