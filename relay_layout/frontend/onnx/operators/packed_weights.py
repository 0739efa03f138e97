"""Operators of com.microsoft whose weights are codes of a few bits, packed into bytes.

Weights are dequantized to floats while the graph is read, or in each call if they are no constants, so that a
product is one of floats, as ONNX Runtime computes MatMulNBits with accuracy_level 0 to 3; with 4 it rounds
the data to bytes as well.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import product
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import block_quantization, slicing
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of, written

BITS = (2, 4, 8)

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
    are_known = all(isinstance(value, np.ndarray) for value in node.inputs[1:5] if value is not None)
    result = _multiplied(node, _numbers) if are_known else _product_of_tensors(node)
    return relax.op.add(node.emit(result, "product"), node.tensor(5)) if node.has(5) else result


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
        if bits not in BITS:
            raise Unsupported(f"has bits={bits}; {written(BITS)} are supported")
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
    if bits not in BITS or size < 1:
        raise Unsupported(f"has bits={bits} and block_size={size}; bits of {written(BITS)} are supported")
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


def _product_of_tensors(node: Node) -> Any:
    """The product by a matrix that is no constant, whose numbers are computed each time."""
    bits, size = int(node.attributes.get("bits", 4)), int(node.attributes["block_size"])
    rows, columns = int(node.attributes["N"]), int(node.attributes["K"])
    if bits not in BITS or node.has(4):
        raise Unsupported(
            f"has bits={bits} or g_idx for a matrix that is no constant, which is not supported"
        )
    blocks = -(-columns // size)
    given, matrix, scales = (shape_of(node.input(place)) for place in range(3))
    fits = [product(matrix) * 8, product(scales)] == [rows * blocks * size * bits, rows * blocks]
    if not fits or not given or given[-1] != columns:
        raise Unsupported(
            f"multiplies {written(given)} by a matrix {written(matrix)} and scales {written(scales)} for "
            f"{rows} columns of {columns} elements in blocks of {size}"
        )
    shape = [rows, blocks, size]
    integers = _unpacked_tensor(node, node.tensor(1), bits, [rows, blocks * size * bits // 8])
    wide = node.emit(node.cast(node.emit(node.reshaped(integers, shape), "integers"), "float32"), "wide")
    point: Any = node.like(2.0 ** (bits - 1), wide)
    if node.has(3):
        point = node.tensor(3)
        if dtype_of(point) == "uint8":
            point = _unpacked_tensor(node, point, bits, [rows, -(-blocks * bits // 8)])
            point = node.emit(relax.op.strided_slice(point, [1], [0], [blocks]), "points")
        point = node.emit(node.expression(node.reshaped(point, [rows, blocks, 1])), "points")
        point = node.emit(node.cast(point, "float32"), "points")
    scale = node.emit(node.expression(node.reshaped(node.input(2), [rows, blocks, 1])), "scale")
    centred = node.emit(relax.op.subtract(wide, point), "centred")
    real = node.emit(relax.op.multiply(centred, node.cast(scale, "float32")), "real")
    flat = node.emit(node.expression(node.reshaped(real, [rows, blocks * size])), "flat")
    kept = node.emit(relax.op.strided_slice(flat, [1], [0], [columns]), "kept")
    turned = node.emit(relax.op.permute_dims(kept, [1, 0]), "turned")
    return relax.op.matmul(node.tensor(0), node.emit(node.cast(turned, dtype_of(node.input(0))), "matrix"))


def _unpacked_tensor(node: Node, packed: Any, bits: int, shape: list[int]) -> Any:
    """What :func:`unpacked` gives of a tensor that has ``shape`` as rows of bytes."""
    data = node.emit(node.expression(node.reshaped(packed, shape)), "bytes")
    if bits == 8:
        return data
    mask = relax.const(2**bits - 1, "uint8")
    parts = [
        node.emit(
            relax.op.bitwise_and(
                node.emit(relax.op.right_shift(data, relax.const(shift, "uint8")), "moved"), mask
            ),
            "part",
        )
        for shift in range(0, 8, bits)
    ]
    together = node.emit(relax.op.stack(parts, 2), "parts")
    return node.emit(node.expression(node.reshaped(together, [shape[0], shape[1] * 8 // bits])), "unpacked")


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
