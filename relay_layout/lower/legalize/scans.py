"""Running sums and products, along rows of vectors; TVM's compute goes along one line at a time."""

import operator

from tvm import relax, te

from relay_layout.ir import Expression, operator_name, shape_of
from topi_ext.compute.scans import scanned

SCANS = {"cumsum": (operator.add, 0), "cumprod": (operator.mul, 1)}
"""What combines two elements, and what has no effect then."""


def scan_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``cumsum`` or ``cumprod``."""
    (data,), attributes = call.args, call.attrs
    if not shape_of(data):
        return call
    axis = attributes.axis
    if axis is None:
        data, axis = builder.emit(relax.op.reshape(data, call.ty.shape)), 0
    combine, neutral = SCANS[operator_name(call)]

    def scan(tensor: te.Tensor) -> te.Tensor:
        before = neutral if attributes.exclusive else None
        return scanned(tensor, int(axis), combine, dtype=str(call.ty.dtype), before=before)

    return builder.call_te(scan, data, primfunc_name_hint=operator_name(call))
