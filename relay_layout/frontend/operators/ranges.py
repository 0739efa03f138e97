"""Ranges of integers whose bounds may be open."""

from tvm import relax

from relay_layout.frontend.extents.arithmetic import simplify
from relay_layout.ir import Emit, Expression, Extent, is_static


def open_range(emit: Emit, start: Extent, stop: Extent, step: Extent, dtype: str) -> Expression:
    """The integers from ``start`` on, before ``stop``.

    TVM counts those of an open range right in ascending order alone.
    """
    if not isinstance(step, int) or step > 0 or is_static((start, stop)):
        return relax.op.arange(start, stop, step, dtype)
    ascending = relax.op.arange(simplify(0 - start), simplify(0 - stop), -step, dtype)
    return relax.op.negative(emit(ascending))
