"""Operators of our own beside Relax's, as TVM has them: registered once for a process."""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.ir import Op

from relay_layout.ir import Expression

Legalize = Callable[[relax.BlockBuilder, relax.Call], Expression]

ANY_NUMBER = -1
"""``inputs`` of an operator that takes any number of them."""


def register_operator(
    name: str,
    description: str,
    operands: Sequence[str],
    *,
    inputs: int,
    infer_type: Callable[[relax.Call, relax.BlockBuilder], Any],
    legalize: Legalize,
) -> None:
    """An operator ``name`` without side effects, with so many ``inputs``, of which the ``operands`` are the
    first; nothing where there is one already.
    """
    if name in Op.list_op_names():
        return
    tvm.ir._ffi_api.RegisterOp(name, description)
    operator = Op.get(name)
    operator.set_num_inputs(inputs)
    for operand in operands:
        operator.add_argument(operand, "Expr", "")
    operator.set_attr("FPurity", True)
    operator.set_attr("FInferType", infer_type)
    operator.set_attr("FLegalize", legalize)
