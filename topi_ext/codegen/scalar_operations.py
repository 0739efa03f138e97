"""Operations of our own on scalars, which schedules split and TVM vectorizes like any other."""

from typing import Any

import tvm
from tvm.ir import Op, register_op_attr

_PURE = 1
"""TVM's kind of effect: the value depends on the arguments alone."""


def scalar_operation(name: str) -> Op:
    """The operation of that name, new to TVM; a pass must lower its vectors before code is generated."""
    register_op_attr(name, "TCallEffectKind", _PURE)
    register_op_attr(name, "TVectorizable", True)
    return Op.get(name)


def lanes_of(expression: Any) -> int:
    """Elements of a vector; 1 of a scalar."""
    return int(tvm.DataType(str(expression.ty.dtype)).lanes)


def element_of(expression: Any) -> str:
    """The dtype of a scalar, or of a vector's elements."""
    return str(expression.ty.dtype).partition("x")[0]


def vector_of(dtype: str, lanes: int) -> str:
    """The dtype of so many elements of ``dtype``."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"
