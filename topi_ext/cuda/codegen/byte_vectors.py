"""Vectors of one byte, as words: TVM writes them out byte by byte, into constructors that take words."""

from typing import Any

from tvm import tirx

from topi_ext.codegen.passes import function_pass, replaced

_WORD = 4


@function_pass
def pack_bytes(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Constants of bytes that are repeated over 8 or 16 lanes become words that are repeated, and are taken
    as bytes again.
    """
    return replaced(func, (tirx.Broadcast, _packed))


def _packed(repeated: tirx.Broadcast) -> Any:
    dtype, lanes = str(repeated.value.ty.dtype), int(repeated.lanes)
    if dtype not in ("int8", "uint8") or lanes <= _WORD or not isinstance(repeated.value, tirx.IntImm):
        return repeated
    word = int.from_bytes(bytes([int(repeated.value) & 0xFF] * _WORD), "little", signed=True)
    return tirx.reinterpret(f"{dtype}x{lanes}", tirx.Broadcast(tirx.const(word, "int32"), lanes // _WORD))
