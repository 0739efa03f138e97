"""What is computed of each matrix of a tensor [..., N, N]."""

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import relax

from relay_layout.ir import Expression, shape_of


def of_square_matrices(builder: Any, compute: Callable[[Any], Any], data: Expression) -> Expression:
    """The first result of ``compute``, which takes matrices [M, N, N], for all those of ``data``."""
    extents = list(shape_of(data) or ())
    flat = relax.ShapeExpr([prod(extents[:-2]), *extents[-2:]])
    flat = builder.emit(relax.op.reshape(data, flat))
    found = builder.emit(builder.call_te(compute, flat, primfunc_name_hint=compute.__name__))
    found = builder.emit(relax.TupleGetItem(found, 0))
    own = list(shape_of(found) or ())[1:]
    return builder.emit(relax.op.reshape(found, relax.ShapeExpr([*extents[:-2], *own])))
