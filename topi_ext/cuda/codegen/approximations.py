"""Approximate exponentials and sigmoids where more digits would be rounded away.

The CUDA library's exponential and IEEE's division, of which a sigmoid consists, take some forty instructions
together; ``__expf`` and ``__fdividef`` take six. By the CUDA C++ Programming Guide, "Intrinsic Functions",
the exponential of x is off by 2 and 1.17 times x units in the last place, and a quotient by 2. A divisor
above 2^126 gives zero, as a sigmoid may.

Other quotients stay IEEE's: what is rounded down behind them, or to an integer, would be another number.
"""

from collections.abc import Collection
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, Op

from topi_ext.codegen.passes import function_pass, replaced

APPROXIMATE = "topi_ext.approximate"
"""The attribute of functions of a network that rounds its tensors, or what it multiplies, to fewer bits."""

_EXPONENTIAL, _SIGMOID = Op.get("tirx.exp"), Op.get("tirx.sigmoid")


def approximate_functions(module: tvm.IRModule) -> set[str]:
    """The names of functions that have :data:`APPROXIMATE`; what they are split into for a device has not."""
    return {
        str(variable.name_hint)
        for variable, func in module.functions_items()
        if isinstance(func, tirx.PrimFunc) and func.attrs and func.attrs.get(APPROXIMATE)
    }


@function_pass
def approximate(func: tirx.PrimFunc, names: Collection[str]) -> tirx.PrimFunc:
    """In device functions of the functions with these names; vectors stay vectors."""
    name, kernel, _ = str(func.attrs["global_symbol"]).rpartition("_kernel")
    if not kernel or name not in names:
        return func
    return replaced(func, (Call, _function))


def _function(call: Call) -> Any:
    if not _is_single(call):
        return call
    if call.op.same_as(_EXPONENTIAL):
        return _extern("__expf", call.args[0])
    if call.op.same_as(_SIGMOID):
        (value,) = call.args
        one, zero = (tirx.const(number, str(call.ty.dtype)) for number in (1.0, 0.0))
        return _extern("__fdividef", one, one + _extern("__expf", zero - value))
    return call


def _extern(name: str, *operands: Any) -> Any:
    return tirx.call_pure_extern(str(operands[0].ty.dtype), name, *operands)


def _is_single(value: Any) -> bool:
    return str(getattr(value.ty, "dtype", "")).split("x")[0] == "float32"
