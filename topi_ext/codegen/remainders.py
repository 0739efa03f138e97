"""Remainders by powers of two, which addresses are made of, written so that LLVM does not look into them.

The loop vectorizer of TVM's LLVM takes ``i & 3`` for ``i``, on the condition that it does not wrap, and where
there are other conditions it forgets to check that one: for ``x[(i % 4) * 5]`` it read ``x[i * 5]``. The
instruction BEXTR computes the same, and is nothing that the vectorizer knows. What does not depend on the
innermost loop is computed before it, as ever.
"""

from typing import Any

from tvm import tirx
from tvm.target import codegen

from topi_ext.codegen.passes import function_pass, replaced

_FEATURE = "bmi"
"""The extension of x86-64 with the instruction; all processors with AVX2 have it."""


@function_pass
def hide_remainders(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Functions without remainders of scalars by powers of two, where there is the instruction."""
    if not codegen.target_has_features(_FEATURE, func.attrs["target"]):
        return func
    return replaced(func, (tirx.FloorMod, _extracted))


def _extracted(remainder: tirx.FloorMod) -> Any:
    divisor, dtype = remainder.b, str(remainder.a.ty.dtype)
    if not isinstance(divisor, tirx.IntImm) or dtype not in ("int32", "int64"):
        return remainder
    bits = int(divisor).bit_length() - 1
    if int(divisor) != 1 << bits or bits == 0:
        return remainder
    # From bit 0 on, so many bits as the upper byte says.
    field = tirx.const(bits << 8, dtype)
    return tirx.call_llvm_pure_intrin(
        dtype, f"llvm.x86.bmi.bextr.{dtype.removeprefix('int')}", remainder.a, field
    )
