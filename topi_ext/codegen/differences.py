"""Differences of floats as IEEE 754 has them, where TVM would cancel terms as if they were integers.

To TVM ``x - x`` is 0, though of infinity and NaN it is NaN, and ``x + c - c`` is ``x``, though that is how a
number is rounded. A sum with the negative of the second operand is left alone, and is the same instruction.
"""

from typing import Any

import tvm
from tvm import tirx
from tvm.ir import prim

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.codegen.scalar_operations import element_of


@function_pass
def keep_differences(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """To be run before everything that simplifies."""
    analyzer = tvm.sym.Analyzer()

    def kept(difference: tirx.Sub) -> Any:
        if "float" not in element_of(difference.a):
            return difference
        simplest = analyzer.simplify(difference)
        terms = [analyzer.simplify(term) for term in (difference.a, difference.b)]
        if prim.expr_deep_equal(simplest, tirx.Sub(*terms)):
            return difference
        return difference.a + difference.b * tirx.const(-1, difference.b.ty.dtype)

    return replaced(func, (tirx.Sub, kept))
