"""Vectors of one byte, as words: TVM writes them out byte by byte, into constructors that take words."""

from typing import Any

import tvm
from tvm import tirx

from topi_ext.codegen.replacing import replacing

_WORD = 4


def pack_bytes() -> tvm.transform.Pass:
    """Constants of bytes that are repeated over 8 or 16 lanes become words that are repeated, and are taken
    as bytes again.
    """
    return replacing("pack_bytes", tirx.Broadcast, _packed)


def _packed(repeated: tirx.Broadcast) -> Any:
    dtype, lanes = str(repeated.value.ty.dtype), int(repeated.lanes)
    if dtype not in ("int8", "uint8") or lanes <= _WORD or not isinstance(repeated.value, tirx.IntImm):
        return repeated
    word = int.from_bytes(bytes([int(repeated.value) & 0xFF] * _WORD), "little", signed=True)
    return tirx.reinterpret(f"{dtype}x{lanes}", tirx.Broadcast(tirx.const(word, "int32"), lanes // _WORD))


__all__ = ["pack_bytes"]
