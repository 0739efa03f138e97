"""Extents that are computed of others at run time, as variables of their own.

Bounds of loops are not found, and tiles not laid, where an extent is a quotient or a product.
"""

from collections.abc import Callable
from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression


def extent_variable(
    builder: relax.BlockBuilder, data: Expression, extent: Callable[[te.Tensor], Any], name: str
) -> tirx.Var:
    """A variable called ``name`` for the ``extent`` that is computed of those of ``data``."""

    def number(tensor: te.Tensor) -> te.Tensor:
        total = extent(tensor).astype("int64")
        return te.compute((1,), lambda _: total, name=f"number_of_{name}")

    found = builder.emit(builder.call_te(number, data, primfunc_name_hint=f"number_of_{name}"))
    variable = tirx.Var(name, "int64")
    builder.match_cast(builder.emit(relax.op.tensor_to_shape(found)), relax.ShapeType([variable]))
    return variable
