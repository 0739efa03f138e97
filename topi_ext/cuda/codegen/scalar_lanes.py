"""Vector loops over what CUDA has no vectors of, unrolled instead.

TVM keeps booleans of a vector in words of two bytes and moves such vectors to and from memory, where each is
one byte. And it writes ``!``, ``~`` and ``x != x`` of whole vectors, which C++ does not know.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Call, Op, TensorLoad
from tvm.ir.prim.expr import BitwiseNot
from tvm_ffi import structural_walk

from topi_ext.codegen.passes import function_pass, replaced

_ISNAN = "tirx.isnan"


@function_pass
def unroll_scalars(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Loops over lanes that read or write booleans in memory, negate, or look for NaN are of scalars."""
    return replaced(func, (tirx.For, _unrolled))


def _unrolled(loop: tirx.For) -> tirx.For:
    if loop.kind != tirx.ForKind.VECTORIZED or not _has_scalars(loop.body):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.UNROLLED, loop.body)


def _has_scalars(body: Any) -> bool:
    found: list[Any] = []

    def on_access(access: Any) -> None:
        buffer = access.buffer if isinstance(access, tirx.BufferStore) else access.source
        if str(buffer.dtype) == "bool":
            found.append(access)

    def on_call(call: Call) -> None:
        if isinstance(call.op, Op) and call.op.name == _ISNAN:
            found.append(call)

    structural_walk(body, ((TensorLoad, tirx.BufferStore), on_access))
    structural_walk(body, (Call, on_call))
    structural_walk(body, ((tirx.Not, BitwiseNot), found.append))
    return bool(found)
