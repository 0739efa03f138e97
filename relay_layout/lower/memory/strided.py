"""Kernels of tensors that lie in the rows of longer ones.

A tensor of rows of ``run`` elements each, one behind the other, becomes a part of rows of ``pitch``: the
kernel takes it for one that is as long, and never reads or writes what is behind the part. It begins up to
some elements behind the address that the kernel is given, which TVM wants to be a multiple of 64 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir import Call, TensorLoad, TensorRegion
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_walk

from relay_layout.ir import Extent, as_extent, is_static
from topi_ext.ir import nodes_of, substitute

VARIANT_OF = "relay_layout.variant_of"
"""Attribute of a function: the name of that which it is, for tensors that lie in the rows of longer ones."""


@dataclass(frozen=True)
class Rows:
    """Rows of ``run`` elements, each at the begin of ``pitch``, the first one ``shift`` behind an address."""

    run: int
    pitch: int
    shift: int


def pitched_axis(shape: Sequence[Extent], run: int, pitch: int) -> tuple[int, int] | None:
    """The axis that is longer where rows of ``run`` elements are of ``pitch``, and its extent then.

    None where rows of that length are no axes of it.
    """
    for axis in reversed(range(len(shape))):
        inner = shape[axis:]
        if not is_static(inner) or prod(inner) != run:
            continue
        rest = prod(inner[1:])
        if rest and pitch % rest == 0:
            return axis, pitch // rest
    return None


def pitched(function: tirx.PrimFunc, place: int, rows: Rows) -> tirx.PrimFunc | None:
    """The kernel for ``rows`` of the tensor that is its parameter ``place``; None where it does not say by
    indices what it reads and writes of that.
    """
    buffer = function.params[place]
    if not isinstance(function.body, SBlockRealize) or not hasattr(buffer.ty, "shape"):
        return None
    if not _is_indexed(function.body, buffer):
        return None
    shape = [as_extent(extent) for extent in buffer.shape]
    if rows.run != rows.pitch:
        found = pitched_axis(shape, rows.run, rows.pitch)
        if found is None:
            return None
        axis, extent = found
        shape[axis] = extent
    shift = tirx.IntImm("int64", rows.shift)
    longer = tirx.decl_buffer(shape, buffer.dtype, buffer.name, elem_offset=shift, layout=None)
    root = substitute(function.body.block, {buffer: longer})
    # Whoever calls the kernel passes a tensor of the shape that it has without what is behind its rows.
    body = tirx.SeqStmt([tirx.DeclBuffer(longer, data=buffer.data), root.body])
    whole = SBlock([], root.reads, root.writes, root.name_hint, body, alloc_buffers=root.alloc_buffers)
    return function.with_body(SBlockRealize([], tirx.const(True, "bool"), whole))


def _is_indexed(body: Any, buffer: Any) -> bool:
    """Are loads, stores and regions of elements all that is done with ``buffer``?"""
    places: list[Any] = []
    known: list[Any] = []
    addresses: list[Any] = []

    def on_call(call: Call) -> None:
        if str(getattr(call.op, "name", "")) == "tirx.address_of":
            addresses.extend(nodes_of(call, TensorLoad))

    structural_walk(
        body,
        [
            (tirx.Var, places.append),
            ((TensorLoad, TensorRegion), lambda read: known.append(read.source)),
            (tirx.BufferStore, lambda store: known.append(store.buffer)),
            (Call, on_call),
        ],
    )
    if any(load.source.same_as(buffer) for load in addresses):
        return False
    return _count(places, buffer) == _count(known, buffer)


def _count(found: Sequence[Any], buffer: Any) -> int:
    return sum(bool(each.same_as(buffer)) for each in found)


Tensors = tuple[tuple[int, Rows], ...]
"""The places of tensors among a kernel's arguments, and their rows."""


class Variants:
    """The kernels of a module for tensors that lie in the rows of longer ones."""

    def __init__(self, module: tvm.IRModule) -> None:
        self._module = module
        self._builder = relax.BlockBuilder(module)
        self._made: dict[tuple[str, Tensors], tirx.PrimFunc | None] = {}
        self._named: dict[tuple[str, Tensors], tvm.ir.GlobalVar] = {}

    def exists(self, function: tvm.ir.GlobalVar, argument: int, rows: Rows) -> bool:
        """Is there a kernel for such rows of one of its tensors?"""
        return self._kernel(function, ((argument, rows),)) is not None

    def named(self, function: tvm.ir.GlobalVar, tensors: Tensors) -> tvm.ir.GlobalVar:
        """The kernel for all of these rows at once, which is to become one of the module's."""
        key = str(function.name_hint), tensors
        if key not in self._named:
            kernel = self._kernel(function, tensors)
            assert kernel is not None
            self._named[key] = self._builder.add_func(
                kernel.with_attr(VARIANT_OF, key[0]), f"{key[0]}_in_rows"
            )
        return self._named[key]

    def module(self) -> tvm.IRModule:
        """The module with all that were named."""
        return self._builder.get()

    def _kernel(self, function: tvm.ir.GlobalVar, tensors: Tensors) -> tirx.PrimFunc | None:
        key = str(function.name_hint), tensors
        if key not in self._made:
            kernel = self._module[function]
            for argument, rows in tensors:
                kernel = pitched(kernel, argument, rows) if isinstance(kernel, tirx.PrimFunc) else None
            self._made[key] = kernel
        return self._made[key]


__all__ = ["VARIANT_OF", "Rows", "Tensors", "Variants", "pitched", "pitched_axis"]
