"""Pointers into shared memory that several buffers of different dtypes share."""

from typing import Any

from tvm import tirx
from tvm.ir import Call, Op
from tvm_ffi import structural_walk

from topi_ext.codegen.passes import function_pass, replaced

_POINTER = Op.get("tirx.tvm_access_ptr")


@function_pass
def match_pointers(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Let pointers of a dtype be taken from a buffer of that dtype over the same memory.

    Merging shared memory leaves them to whichever buffer comes first, and code generation refuses another
    dtype.
    """
    views: dict[tuple[str, str], Any] = {}

    def declared(node: tirx.DeclBuffer) -> None:
        views.setdefault((str(node.data), str(node.buffer.dtype)), node.buffer)
        memory[node.buffer] = str(node.data)

    memory: dict[Any, str] = {}
    structural_walk(func.body, (tirx.DeclBuffer, declared))

    def matched(call: Call) -> Call:
        if not call.op.same_as(_POINTER) or not isinstance(call.args[1], Call):
            return call
        buffer, dtype = call.args[1].args[0], str(call.args[0].ty.dtype)
        view = views.get((memory.get(buffer, ""), dtype))
        if view is None or str(buffer.dtype) == dtype:
            return call
        pointer = view.data
        return Call(
            call.op, [call.args[0], pointer, *call.args[2:]], call.attrs, call.ty_args, ret_ty=call.ty
        )

    return replaced(func, (Call, matched))
