"""Ranges of integers whose bounds may be open."""

from tvm import relax, tirx

from relay_layout.frontend.extents.arithmetic import greatest, simplify
from relay_layout.ir import Emit, Expression, Extent, is_static, scalar


def open_range(emit: Emit, start: Extent, stop: Extent, step: Extent, dtype: str) -> Expression:
    """The numbers from ``start`` on, before ``stop``; an open ``step`` has to be more than zero.

    TVM counts those of an open range right in ascending order alone, and by a step that is known.
    """
    if isinstance(step, tirx.Expr):
        count = greatest(simplify((stop - start + step - 1) // step), 0)
        places = emit(relax.op.arange(0, count, 1, dtype))
        first, stride = (emit(relax.op.astype(scalar(emit, one), dtype)) for one in (start, step))
        return relax.op.add(emit(relax.op.multiply(places, stride)), first)
    if step > 0 or is_static((start, stop)):
        return relax.op.arange(start, stop, step, dtype)
    ascending = relax.op.arange(simplify(0 - start), simplify(0 - stop), -step, dtype)
    return relax.op.negative(emit(ascending))
