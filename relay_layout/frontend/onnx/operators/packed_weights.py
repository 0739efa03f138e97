"""Operators of com.microsoft whose weights are codes of a few bits, packed into bytes.

Weights are dequantized to floats while the graph is read, so that a product is one of floats, as ONNX Runtime
computes MatMulNBits with accuracy_level 0 to 3; with 4 it rounds the data to bytes as well.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import block_quantization, slicing
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of, written

_BITS = (2, 4, 8)

_FP4 = np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4], "float32")
# fmt: off
_NF4 = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
        1.0,
    ],
    "float32",
)
# fmt: on
_CODES = {0: np.concatenate([_FP4, -_FP4]), 1: _NF4}
"""The numbers, up to a factor, that codes of four bits stand for in bitsandbytes, by ``quant_type``."""


def _product(node: Node) -> Value:
    """[..., K] by the transposed matrix [N, K] of integers, to [..., N]."""
    product = _multiplied(node, _numbers)
    return relax.op.add(node.emit(product, "product"), node.tensor(5)) if node.has(5) else product


def _product_of_codes(node: Node) -> Value:
    """[..., K] by the transposed matrix [N, K] of codes, to [..., N]."""
    if not node.attributes.get("transB", 1):
        raise Unsupported("has transB=0, which is not supported: quantize the matrix transposed")
    return _multiplied(node, _decoded)


def _multiplied(node: Node, weights: Callable[[Node, int, int], Array]) -> Any:
    rows, columns = int(node.attributes["N"]), int(node.attributes["K"])
    shape = shape_of(node.input(0))
    if not shape or shape[-1] != columns:
        raise Unsupported(f"multiplies {written(shape)} by a matrix of {columns} rows")
    weight = weights(node, rows, columns).T.astype(dtype_of(node.input(0)))
    return relax.op.matmul(node.tensor(0), node.expression(np.ascontiguousarray(weight)))


def _decoded(node: Node, rows: int, columns: int) -> Array:
    """The matrix [N, K] in float32; the higher half of a byte comes first, and blocks run through rows."""
    packed, largest = node.constant(1).reshape(-1), node.constant(2).reshape(-1)
    size, kind = int(node.attributes["block_size"]), int(node.attributes["quant_type"])
    count = rows * columns
    if kind not in _CODES or size < 1 or packed.size * 2 < count or largest.size * size < count:
        raise Unsupported(
            f"has a matrix of {packed.size} bytes and {largest.size} factors of quant_type {kind} for {rows} "
            f"columns of {columns} elements in blocks of {size}"
        )
    codes = np.stack([packed >> 4, packed & 15], 1).reshape(-1)[:count]
    numbers: Array = _CODES[kind][codes] * largest.astype("float32").repeat(size)[:count]
    return numbers.reshape(rows, columns)


def _rows_of_table(node: Node) -> Value:
    """Gather of a table of integers, of which each block along one axis has a scale and a zero point."""
    bits, table = int(node.attributes.get("bits", 4)), node.constant(0)
    is_packed = table.dtype == np.uint8
    points: Array | None = node.constant(3) if node.has(3) else None
    if is_packed:
        if bits not in _BITS:
            raise Unsupported(f"has bits={bits}; {written(_BITS)} are supported")
        table = unpacked(table, bits)
    size, axis = int(node.attributes.get("block_size", 128)), int(node.attributes.get("quantize_axis", 1))
    if points is None:
        points = np.full(node.constant(2).shape, 2 ** (bits - 1) if is_packed else 0, "int32")
    elif is_packed:
        points = unpacked(points, bits)[..., : node.constant(2).shape[-1]]
    table, points = table.astype("int32"), points.astype("int32")
    shape = list(table.shape)
    scale, point = (
        block_quantization.spread(node, value, shape, axis, size) for value in (node.constant(2), points)
    )
    numbers = block_quantization.numbers(node, table, scale, point).astype(dtype_of(node.input(2)))
    named = {"axis": int(node.attributes.get("gather_axis", 0))}
    return slicing.CONVERTERS["Gather"](replace(node, attributes=named, inputs=(numbers, node.input(1))))


def _numbers(node: Node, rows: int, columns: int) -> Array:
    """The matrix [N, K] in float32."""
    bits, size = int(node.attributes.get("bits", 4)), int(node.attributes["block_size"])
    if bits not in _BITS or size < 1:
        raise Unsupported(f"has bits={bits} and block_size={size}; bits of {written(_BITS)} are supported")
    blocks = -(-columns // size)
    packed, scale = node.constant(1), node.constant(2)
    if packed.size * 8 != rows * blocks * size * bits or scale.size != rows * blocks:
        raise Unsupported(
            f"has a matrix of {packed.size} bytes and {scale.size} scales for {rows} columns of {columns} "
            f"elements in blocks of {size}"
        )
    integers = unpacked(packed.reshape(rows, -1), bits)[:, :columns]
    places = np.arange(columns) // size
    if node.has(4):
        if node.has(3):
            # ONNX Runtime leaves the zero points out then.
            raise Unsupported(
                "has zero points and g_idx, which is not supported; quantize the matrix without g_idx"
            )
        places = node.constant(4).reshape(-1)[:columns]
    points = _points(node, rows, blocks, bits)
    centred: Array = integers.astype("float32") - points[:, places]
    return centred * scale.reshape(rows, blocks).astype("float32")[:, places]


def _points(node: Node, rows: int, blocks: int, bits: int) -> Array:
    """A zero point for each block of each row: half of the range where there are none."""
    if not node.has(3):
        return np.full((rows, blocks), 2.0 ** (bits - 1), "float32")
    given = node.constant(3)
    if given.dtype == np.uint8:
        given = unpacked(given.reshape(rows, -1), bits)[:, :blocks]
    return given.reshape(rows, blocks).astype("float32")


def unpacked(packed: Array, bits: int) -> Array:
    """Integers of ``bits`` from rows of bytes, the lowest bits of each byte first."""
    shifts = np.arange(0, 8, bits, dtype="uint8")
    parts: Array = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return parts.reshape(*packed.shape[:-1], -1)


CONVERTERS: dict[str, Converter] = {
    "GatherBlockQuantized": _rows_of_table,
    "MatMulBnb4": _product_of_codes,
    "MatMulNBits": _product,
}
