"""Variants of kernels for strided tensors: parts of the rows of a larger tensor.

A contiguous tensor with rows of ``run`` elements becomes a part of rows of ``pitch`` elements: the variant
declares the larger shape for its buffer, and never accesses the rest of a row. The part may begin some
elements behind the address that is passed, as TVM requires addresses that are multiples of 64 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir import Call, TensorLoad, TensorRegion
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map, structural_walk

from relay_layout.ir import Extent, as_extent, is_static
from topi_ext.ir import nodes_of, substitute

VARIANT_OF = "relay_layout.variant_of"
"""Attribute of a variant: the name of the function that it is a variant of."""


@dataclass(frozen=True)
class Rows:
    """Strided rows: ``run`` elements each, beginning ``pitch`` elements apart, the first ``shift``
    elements behind an aligned address.
    """

    run: int
    pitch: int
    shift: int


def pitched_axis(shape: Sequence[Extent], run: int, pitch: int) -> tuple[int, int] | None:
    """The axis of ``shape`` to enlarge so that rows of ``run`` elements are ``pitch`` apart, and its new
    extent.

    None if no group of innermost axes has ``run`` elements, or ``pitch`` is no multiple of the inner extents.
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
    """The variant of a kernel for a strided tensor as its parameter ``place``.

    None if the kernel accesses that tensor other than by indices, or its shape has no such rows.
    """
    buffer = function.params[place]
    if not isinstance(function.body, SBlockRealize) or not hasattr(buffer.ty, "shape"):
        return None
    if not _is_indexed(function.body, buffer):
        return None

    def undeclared(view: tirx.DeclBuffer) -> Any:
        return tirx.Evaluate(0) if _is_of(view, buffer) else view

    views = [view.buffer for view in nodes_of(function.body, tirx.DeclBuffer) if _is_of(view, buffer)]
    longer = {tensor: _longer(tensor, rows) for tensor in (buffer, *views)}
    if any(tensor is None for tensor in longer.values()):
        return None
    root = substitute(structural_map(function.body.block, (tirx.DeclBuffer, undeclared)), longer)
    # The parameter keeps the shape of the part, which is the shape of the tensor that callers pass.
    declared = [tirx.DeclBuffer(tensor, data=buffer.data) for tensor in longer.values()]
    body = tirx.SeqStmt([*declared, root.body])
    whole = SBlock([], root.reads, root.writes, root.name_hint, body, alloc_buffers=root.alloc_buffers)
    return function.with_body(SBlockRealize([], tirx.const(True, "bool"), whole))


def _longer(tensor: Any, rows: Rows) -> Any | None:
    """The larger tensor whose rows hold those of another one; None where it has no such rows."""
    shape = [as_extent(extent) for extent in tensor.shape]
    if rows.run != rows.pitch:
        found = pitched_axis(shape, rows.run, rows.pitch)
        if found is None:
            return None
        axis, extent = found
        shape[axis] = extent
    shift = tirx.IntImm("int64", rows.shift)
    return tirx.decl_buffer(shape, tensor.dtype, tensor.name, elem_offset=shift, layout=None)


def _is_of(view: tirx.DeclBuffer, buffer: Any) -> bool:
    """Is it a view of that tensor?"""
    return any(each.same_as(buffer) for each in nodes_of(view.data, tirx.Var))


def _is_indexed(body: Any, buffer: Any) -> bool:
    """Is ``buffer`` used in loads, stores, regions and views only?"""
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
            (tirx.DeclBuffer, lambda view: known.extend(nodes_of(view.data, tirx.Var))),
            (Call, on_call),
        ],
    )
    if any(load.source.same_as(buffer) for load in addresses):
        return False
    return _count(places, buffer) == _count(known, buffer)


def _count(found: Sequence[Any], buffer: Any) -> int:
    return sum(bool(each.same_as(buffer)) for each in found)


Tensors = tuple[tuple[int, Rows], ...]
"""The strided arguments of a kernel by index, each with its rows."""


class Variants:
    """The variants of a module's kernels for strided tensors."""

    def __init__(self, module: tvm.IRModule) -> None:
        self._module = module
        self._builder = relax.BlockBuilder(module)
        self._made: dict[tuple[str, Tensors], tirx.PrimFunc | None] = {}
        self._named: dict[tuple[str, Tensors], tvm.ir.GlobalVar] = {}

    def exists(self, function: tvm.ir.GlobalVar, argument: int, rows: Rows) -> bool:
        """Is there a variant of ``function`` for such rows of one argument?"""
        return self._kernel(function, ((argument, rows),)) is not None

    def named(self, function: tvm.ir.GlobalVar, tensors: Tensors) -> tvm.ir.GlobalVar:
        """The variant for all of these rows; it is added to the module."""
        key = str(function.name_hint), tensors
        if key not in self._named:
            kernel = self._kernel(function, tensors)
            assert kernel is not None
            self._named[key] = self._builder.add_func(
                kernel.with_attr(VARIANT_OF, key[0]), f"{key[0]}_in_rows"
            )
        return self._named[key]

    def module(self) -> tvm.IRModule:
        """The module with all variants that :meth:`named` returned."""
        return self._builder.get()

    def _kernel(self, function: tvm.ir.GlobalVar, tensors: Tensors) -> tirx.PrimFunc | None:
        key = str(function.name_hint), tensors
        if key not in self._made:
            kernel = self._module[function]
            for argument, rows in tensors:
                kernel = pitched(kernel, argument, rows) if isinstance(kernel, tirx.PrimFunc) else None
            self._made[key] = kernel
        return self._made[key]
