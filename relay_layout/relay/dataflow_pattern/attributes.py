"""What patterns ask of attributes."""

from typing import Any

import tvm

from relay_layout.relay.dataflow_pattern.operator_kinds import operator_kind
from relay_layout.relay.syntax import tree


def plain(value: Any) -> Any:
    """A value of an attribute, of a script or of a call, in one form for both."""
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return plain(value.value)
    if isinstance(value, list | tuple | tvm.ir.Array):
        return tuple(map(plain, value))
    return str(value) if isinstance(value, str | tvm.DataType) else value


def has_attribute(expression: Any, name: str, value: Any) -> bool:
    """Whether a call, a function or an operator ("TOpPattern") has an attribute of a value.

    Attributes have their values as they are written or by default.
    """
    if name == "TOpPattern":
        operator = expression.op if isinstance(expression, tree.Call) else expression
        return isinstance(operator, str) and operator_kind(operator) == value
    if not isinstance(expression, tree.Call | tree.Function):
        return False
    try:
        found = expression.attrs[name]
    except KeyError:
        return False
    return bool(plain(found) == plain(value))
