"""Quotients by extents that may be 0 in a call.

No loop divides by the number of its own iterations if there are none. But how much memory a buffer takes,
and which part of it is read, TVM works out before the loops begin: by the number of rows of a result that
has none, which ends the process.
"""

from typing import Any

from tvm import tirx

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.codegen.scalar_operations import lanes_of

_DIVISIONS = tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod


@function_pass
def divide_by_no_zero(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A divisor of integers that is a variable, or a product, is 1 where it is 0.

    To be run behind everything that simplifies.
    """
    return replaced(func, (_DIVISIONS, _by_no_zero))


def _by_no_zero(division: Any) -> Any:
    divisor = division.b
    dtype = str(divisor.ty.dtype)
    if not dtype.startswith("int") or lanes_of(divisor) > 1 or not isinstance(divisor, tirx.Var | tirx.Mul):
        return division
    none, one = tirx.const(0, dtype), tirx.const(1, dtype)
    return type(division)(division.a, tirx.Select(tirx.EQ(divisor, none), one, divisor))
