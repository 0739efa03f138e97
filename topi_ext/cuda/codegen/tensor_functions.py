"""What descriptions and implementations of tensor intrinsics are built of."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

SHARED = "shared.dyn"
"""The scope of tiles in shared memory."""

FRAGMENT = "warp"
"""The scope of fragments whose elements :mod:`topi_ext.cuda.codegen.fragments` gives to their lanes."""

OWNED_SUMS = 8
"""Sums of a fragment that a lane owns."""


Body = Callable[..., None]
Pair = tuple[tirx.PrimFunc, tirx.PrimFunc]


def tensor_function(buffers: Sequence[Any], reads: Sequence[int], writes: int, body: Body) -> tirx.PrimFunc:
    """A function of ``buffers`` that reads some of them, by place, writes one, whole, and does ``body``."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        found = [T.arg(f"operand{place}", buffer) for place, buffer in enumerate(buffers)]
        with T.sblock("root"):
            T.reads(*(_whole(found[place]) for place in reads))
            T.writes(_whole(found[writes]))
            body(*found)
    return builder.get()


def _whole(buffer: Any) -> Any:
    return buffer[tuple(slice(0, int(extent)) for extent in buffer.shape)]


def elements(extents: tuple[int, ...], kinds: str, body: Body) -> None:
    """Loops around one block, ``body`` of its axes; "S" or "R" for each of them."""
    with T.grid(*extents) as loops, T.sblock("element"):
        body(*T.axis.remap(kinds, list(loops)))


def operand(shape: tuple[int, ...], dtype: str, scope: str, *, by_rows: bool = False) -> Any:
    """A fresh buffer; ``by_rows`` with strides and an offset of whatever it is matched with."""
    if not by_rows:
        return T.buffer(shape, dtype, scope=scope, offset_factor=1, layout=None)
    strides = [tirx.Var(f"stride{place}", "int32") for place in range(len(shape))]
    return T.buffer(shape, dtype, scope=scope, offset_factor=8, strides=strides, layout=None)


def pointer_to(shared: Any, dtype: str, extent: Any, mask: int = 1) -> Any:
    """A pointer to ``extent`` elements from an operand's first on; ``mask`` 1 reads, 2 writes."""
    return T.tvm_access_ptr(T.type_annotation(dtype), shared.data, shared.elem_offset, extent, mask)
