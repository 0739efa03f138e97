"""The operator that Relax lacks for functions of a byte: a look into a table of all 256 results.

It is registered with TVM as ``relax.relay_layout.lookup``, with its loops: of a tensor of uint8 and a table
of 256 elements, the element of the table for each byte.
"""

from typing import Any

import numpy as np
from tvm import relax, te
from tvm.ir import Op

from relay_layout.ir import Expression, constant
from relay_layout.own_operators import register_operator

LOOKUP = "relay_layout.lookup"
"""Also the attribute of functions that it becomes."""

VALUES = 256
"""How many values a byte has."""

_NAME = f"relax.{LOOKUP}"


def lookup(data: Expression, table: np.ndarray) -> relax.Call:
    """``table[data]`` of a tensor of uint8, in the dtype of the table's 256 elements."""
    assert table.shape == (VALUES,)
    return relax.Call(Op.get(_NAME), [data, constant(table)])


def _infer_type(call: relax.Call, builder: relax.BlockBuilder) -> Any:
    data, table = (argument.ty for argument in call.args)
    if data.shape is None:
        return relax.TensorType(None, table.dtype, ndim=data.ndim)
    return relax.TensorType(data.shape, table.dtype)


def _legalized(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    def look_up(data: te.Tensor, table: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *index: table(data(*index).astype("int32")), name="lookup")

    return builder.call_te(look_up, *call.args, primfunc_name_hint="lookup", primfunc_attrs={LOOKUP: True})


register_operator(
    _NAME,
    "Each byte's element of a table",
    ("data", "table"),
    inputs=2,
    infer_type=_infer_type,
    legalize=_legalized,
)
