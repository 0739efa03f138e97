"""What a PyTorch program says of memory, and the operations whose meaning depends on it.

An exported program knows the strides of every tensor in it, so that nothing has to be guessed: inputs and
outputs are declared by their strides, and ``as_strided``, the one operation that reads memory rather than
elements, is computed from the memory order that its operand has in PyTorch.
"""

from collections.abc import Sequence
from math import lcm
from typing import Any

import numpy as np
import torch
from tvm import relax

from relay_layout.artifact.memory_order import channels_last, dim_order_of, dim_order_with_gaps
from relay_layout.dim_order_marker import to_dim_order
from relay_layout.errors import ModelError
from relay_layout.frontend.torch.arguments import input_names, outputs
from relay_layout.frontend.torch.graphs import all_nodes
from relay_layout.frontend.torch.node import Converter, argument
from relay_layout.ir import Expression, is_static

_MULTIPLE = lcm(*range(1, 17))
"""A multiple that an open extent is taken to be when strides are compared."""


def check_strides(program: Any, decomposed: Any, label: str) -> None:
    """ModelError where taking operations apart changed the memory that ``as_strided`` reads.

    What an operation is taken apart into may use ``as_strided`` itself, on memory that it knows.
    """
    left = iter(_memory_read(decomposed))
    if not all(read in left for read in _memory_read(program)):
        raise ModelError(
            f"{label}: as_strided of a tensor whose memory order is not certain is not supported"
        )


def _memory_read(program: Any) -> list[tuple[list[int], list[int], str]]:
    """For each ``as_strided`` the shape and strides of its operand, and what it reads of that memory."""
    nodes = [node for node in all_nodes(program) if node.target is torch.ops.aten.as_strided.default]
    operands = [node.args[0].meta["val"] for node in nodes]
    return [
        (_numbers(operand.shape), _numbers(operand.stride()), f"{operand.storage_offset()} {node.args[1:]}")
        for node, operand in zip(nodes, operands, strict=True)
    ]


def declared_orders(program: Any) -> tuple[list[list[int]], list[list[int]]]:
    """The orders in which the inputs and the outputs lie in memory.

    Those of a slice declare the order that lies between the gaps, strides that are no order the plain one.
    """
    held = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    inputs = [_order(held[name]) for name in input_names(program)]
    return inputs, [_order(value) for value in outputs(program)]


def _order(value: Any) -> list[int]:
    shape, strides = _numbers(value.shape), _numbers(value.stride())
    return list(dim_order_with_gaps(shape, strides) or range(len(shape)))


def _numbers(extents: Sequence[Any]) -> list[int]:
    """Extents or strides as numbers, with one and the same number for a symbol wherever it occurs."""
    return [extent if isinstance(extent, int) else _number(extent) for extent in extents]


def _number(extent: Any) -> int:
    expression = extent.node.expr
    symbols = sorted(expression.free_symbols, key=str)
    values = {symbol: _divisible(symbol) for symbol in symbols}
    return int(expression.subs(values))


def _divisible(symbol: Any) -> int:
    """A number that views in parts divide: quotients of extents, and by these, are no zeros."""
    # Symbols are called s and a number, and what is called so is one extent wherever it occurs.
    return _MULTIPLE * (1 + int("".join(filter(str.isdigit, str(symbol))) or 0))


def _clone(node: Any, importer: Any) -> Expression:
    return _reordered(node, importer, importer.env[node.args[0]])


def _to_copy(node: Any, importer: Any) -> Expression:
    return _reordered(node, importer, importer._to_copy(node))


def _reordered(node: Any, importer: Any, value: Expression) -> Expression:
    """The value, with the order that the operation asks for made explicit."""
    wanted = node.kwargs.get("memory_format")
    rank = len(node.meta["val"].shape)
    if wanted in (None, torch.preserve_format) or rank == 0:
        return value
    plain = wanted == torch.contiguous_format
    order = tuple(range(rank)) if plain else channels_last(rank)
    return importer.block_builder.emit(to_dim_order(value, order))


def _empty(node: Any, importer: Any) -> Expression:
    """Zeros: whatever a program reads of memory that nobody wrote is as good as any."""
    dtype = importer._convert_data_type(node.meta["val"].dtype, importer.env)
    size = importer.retrieve_args(node)[0]
    value = importer.block_builder.emit(relax.op.zeros(relax.ShapeExpr(list(size)), dtype))
    if "physical_layout" in node.kwargs or len(node.args) > 1:
        order = node.kwargs.get("physical_layout", node.args[-1])
        return importer.block_builder.emit(to_dim_order(value, order)) if order else value
    return _reordered(node, importer, value)


def _as_strided(node: Any, importer: Any) -> Expression:
    """Elements picked from memory: an index into the tensor as PyTorch stores it."""
    source, value = node.args[0].meta["val"], importer.env[node.args[0]]
    size, stride = node.args[1], node.args[2]
    own = source.storage_offset()
    offset = argument(node, 3, "storage_offset", own)
    result = node.meta["val"]
    if str(offset) == str(own) and _same_elements(source, result):
        return value
    numbers = [*source.shape, *source.stride(), own, *size, *stride, offset]
    if not is_static(numbers):
        raise ModelError(f"node '{node.name}': as_strided of symbolic extents is not supported")
    order = dim_order_of(source.shape, source.stride())
    index = np.full(size, offset - own, "int64")
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        along = [1] * len(size)
        along[axis] = extent
        index += (np.arange(extent) * step).reshape(along)
    if order is None or (index.size and (index.min() < 0 or index.max() >= source.numel())):
        raise ModelError(
            f"node '{node.name}': as_strided reads memory outside of its operand, which is not supported"
        )
    builder = importer.block_builder
    stored = (
        builder.emit(relax.op.permute_dims(value, list(order))) if list(order) != sorted(order) else value
    )
    flat = builder.emit(relax.op.reshape(stored, (source.numel(),)))
    taken = builder.emit(relax.op.take(flat, relax.const(index.reshape(-1)), axis=0))
    return builder.emit(relax.op.reshape(taken, tuple(size)))


def _same_elements(source: Any, result: Any) -> bool:
    """Whether only strides of dimensions of one element differ, so that every index means the same place."""
    held, wanted = (
        [
            (str(extent), "" if str(extent) == "1" else str(stride))
            for extent, stride in zip(value.shape, value.stride(), strict=True)
        ]
        for value in (source, result)
    )
    return held == wanted


CONVERTERS: dict[str, Converter] = {
    "_to_copy.default": _to_copy,
    "as_strided.default": _as_strided,
    "clone.default": _clone,
    "empty.memory_format": _empty,
    "empty_permuted.default": _empty,
}
"""Converters that TVM's importer lacks or gets wrong, by the names that it has for operations."""
