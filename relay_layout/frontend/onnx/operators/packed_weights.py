"""MatMulNBits of com.microsoft: a product by a matrix whose integers of a few bits are packed into bytes.

Its matrix is dequantized to floats while the graph is read, so that the product is one of floats, as ONNX
Runtime computes it with accuracy_level 0 to 3; with 4 it rounds the data to bytes as well.
"""

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.values import Array, Unsupported, Value, dtype_of, shape_of, written

_BITS = (2, 4, 8)


def _product(node: Node) -> Value:
    """[..., K] by the transposed matrix [N, K], to [..., N]."""
    rows, columns = int(node.attributes["N"]), int(node.attributes["K"])
    shape = shape_of(node.input(0))
    if not shape or shape[-1] != columns:
        raise Unsupported(f"multiplies {written(shape)} by a matrix of {columns} rows")
    weight = _numbers(node, rows, columns).T.astype(dtype_of(node.input(0)))
    product = relax.op.matmul(node.tensor(0), node.expression(np.ascontiguousarray(weight)))
    return relax.op.add(node.emit(product, "product"), node.tensor(5)) if node.has(5) else product


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


CONVERTERS: dict[str, Converter] = {"MatMulNBits": _product}
