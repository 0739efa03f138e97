"""Asynchronous copies that write zeros where a condition says that there is nothing to copy.

TVM makes two instructions of them, a copy and a store of zeros, each by the condition and its opposite: ptxas
puts more between the two so that they keep their order, and a branch around them where it runs short of
predicates. cp.async itself writes zeros for what it is told not to read.
"""

from tvm import tirx
from tvm.ir import Call
from tvm.tirx.script import builder as T

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.cuda.codegen.device_functions import call_void
from topi_ext.cuda.codegen.statements import ASYNC_COPY
from topi_ext.dtypes import DTYPE_BYTES

COPY_OR_ZEROS = "topi_ext_copy_or_zeros"
"""Device functions, with the bytes that they copy behind their name."""

_CONDITION = 5
"""Place of the argument that only such copies have."""


@function_pass
def copy_or_zeros(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Make every copy with a condition one instruction. Expects device functions with flat buffers."""
    return replaced(func, (tirx.Evaluate, _copied))


def _copied(statement: tirx.Evaluate) -> tirx.Evaluate:
    call = statement.value
    if not isinstance(call, Call) or not call.op.same_as(ASYNC_COPY) or len(call.args) <= _CONDITION:
        return statement
    to, target, origin, source, size, condition = call.args
    dtype, count = str(call.ty.dtype), int(size)
    pointers = [
        T.tvm_access_ptr(T.type_annotation(dtype), data, place, count // DTYPE_BYTES[dtype], mask)
        for data, place, mask in ((to, target, 2), (origin, source, 1))
    ]
    return tirx.Evaluate(call_void(f"{COPY_OR_ZEROS}_{count}", [*pointers, condition], _source(count)))


def _source(count: int) -> str:
    # Only copies of 16 bytes can leave the first-level cache out.
    cache = "cg" if count == 16 else "ca"
    return f"""
__device__ __forceinline__ void {COPY_OR_ZEROS}_{count}(void* to, const void* from, bool there) {{
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {count}, %2;"
    : : "r"(address), "l"(from), "r"(there ? {count} : 0));
}}
"""
