"""Calls of device functions that bring their source with them."""

from collections.abc import Sequence
from typing import Any

from tvm.ir import Call, Op, StringImm
from tvm.tirx.script import builder as T

_FUNC_CALL = Op.get("tirx.cuda.func_call")


def call_void(name: str, arguments: Sequence[Any], source: str) -> Any:
    """The call of the function ``name``, which ``source`` defines and which returns nothing."""
    return T.cuda.func_call(name, *arguments, source_code=source, return_type="void")


def called(call: Call) -> str:
    """The name of the device function that a call is of; empty for another call."""
    if not call.op.same_as(_FUNC_CALL) or not isinstance(call.args[0], StringImm):
        return ""
    return str(call.args[0].value)
