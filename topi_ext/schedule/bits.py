"""Temporary tensors of bfloat16 as the bits that are in memory.

TVM's code generation makes float32 of every such tensor within a function, which instructions on addresses
would not know of.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock as Block
from tvm_ffi import structural_map, structural_walk

_FLOAT, _BITS = "bfloat16", "uint16"
_HALF, _LOW = 0x7FFF, 16
"""Half a unit of the lower 16 bits of a float32, which bfloat16 leaves out."""


def with_bits(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """``func`` with temporaries of bfloat16 as uint16; but for stores, only their addresses may be used."""
    found: list[Block] = []
    structural_walk(func.body, (Block, found.append))
    new = {
        buffer: tirx.decl_buffer(buffer.shape, _BITS, buffer.name, scope=buffer.scope())
        for block in found
        for buffer in block.alloc_buffers
        if str(buffer.dtype) == _FLOAT
    }
    if not new:
        return func

    def store(node: tirx.BufferStore) -> Any:
        if str(node.buffer.dtype) != _BITS:
            return node
        return tirx.BufferStore(node.buffer, _bits(node.value), list(node.indices))

    def load(node: TensorLoad) -> Any:
        is_new = str(node.source.dtype) == _BITS and str(node.ty.dtype) == _FLOAT
        return tirx.BufferLoad(node.source, list(node.indices)) if is_new else node

    body = structural_map(
        func.body,
        [
            (TensorLoad, load),
            (tirx.BufferStore, store),
            (tirx.Var, lambda variable: new.get(variable, variable)),
        ],
    )
    return func.with_body(body)


def _bits(value: Any) -> Any:
    """Those of an element: one that is read, rounded, or chosen between two."""
    if str(value.ty.dtype) == _BITS:
        return value
    if isinstance(value, tirx.FloatImm):
        assert value.value == 0
        return tirx.const(0, _BITS)
    if isinstance(value, TensorLoad):
        return tirx.reinterpret(_BITS, value)
    if isinstance(value, tirx.Cast):
        return _rounded(value.value.astype("float32"))
    assert isinstance(value, Call) and value.op.name == "prim.if_then_else", value
    condition, inside, outside = value.args
    return tirx.if_then_else(condition, _bits(inside), _bits(outside))


def _rounded(value: Any) -> Any:
    """The upper half of a float32, rounded to the nearest and of two to the even one."""
    word = tirx.reinterpret("uint32", value)
    last = (word >> tirx.const(_LOW, "uint32")) & tirx.const(1, "uint32")
    return ((word + last + tirx.const(_HALF, "uint32")) >> tirx.const(_LOW, "uint32")).astype(_BITS)


__all__ = ["with_bits"]
