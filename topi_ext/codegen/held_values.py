"""Values that TVM's analysis leaves where they are computed, instead of putting them in the place of each
use.

What an expression binds and uses twice, six times over, it would look at 64 times. To it, what is held here
may change with memory; code generation never sees that.
"""

from typing import Any

import tvm
from tvm.ir import Call, Op, register_op_attr

_HELD = "topi_ext.held"

_READS_STATE = 2
"""TVM's kind of calls that may give another value each time, and change nothing."""


def held(value: Any) -> Any:
    """``value``, to be bound to a variable."""
    return Call(Op.get(_HELD), [value], ret_ty=value.ty)


def _released(call: Call) -> Any:
    return call.args[0]


if _HELD not in Op.list_op_names():
    tvm.ir._ffi_api.RegisterOp(_HELD, "its operand")
register_op_attr(_HELD, "TCallEffectKind", _READS_STATE)
register_op_attr(_HELD, "TVectorizable", True)
register_op_attr(_HELD, "default.FLowerIntrinsic", _released)
