"""Constants of bfloat16 that are not finite, which TVM prints as no CUDA."""

import math

from tvm import tirx

from topi_ext.codegen.passes import function_pass, replaced


@function_pass
def cast_infinities(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Infinities and NaN of bfloat16 are converted from float32."""
    return replaced(func, (tirx.FloatImm, _converted))


def _converted(constant: tirx.FloatImm) -> tirx.Expr:
    if str(constant.ty.dtype) != "bfloat16" or math.isfinite(float(constant.value)):
        return constant
    return tirx.Cast("bfloat16", tirx.FloatImm("float32", float(constant.value)))
