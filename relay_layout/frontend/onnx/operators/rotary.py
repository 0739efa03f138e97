"""Positions in attention by turning pairs of features, as com.microsoft has it.

Letters of shapes: N images, S rows, H heads of D features each, R of which are turned.
"""

from typing import Any

from tvm import relax

from relay_layout.frontend.extents.arithmetic import same
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Unsupported, Value, shape_of, written


def _rotary_embedding(node: Node) -> Value:
    """Rotates [N, S, H D] or [N, H, S, D] by angles whose cosines and sines are [positions, R / 2].

    ONNX Runtime reads the attribute ``scale`` and makes no use of it. Packed batches only have more rows.
    """
    shape, half = shape_of(node.input(0)), shape_of(node.input(2))[-1]
    if len(shape) not in (3, 4) or not isinstance(shape[-1], int) or not isinstance(half, int):
        raise Unsupported(f"turns {written(shape)} where [N,S,C] or [N,H,S,D] is due")
    heads = int(node.attributes.get("num_heads", 0))
    depth = shape[-1] if len(shape) == 4 else (shape[-1] // heads if heads else 2 * half)
    if depth < 2 * half or shape[-1] % depth:
        raise Unsupported(f"turns {2 * half} features of {depth} in {written(shape)}")
    data, rows, along = node.tensor(0), shape[-2], 1
    if len(shape) == 3:
        whole = node.reshaped(data, [*shape[:2], shape[2] // depth, depth])
        data, along = node.emit(node.expression(whole), "heads"), 2
    cosine, sine = (_angles(node, place, shape[0], rows, along) for place in (2, 3))
    turned, rest = data, None
    if 2 * half < depth:
        parts = node.emit(relax.op.split(data, [2 * half], 3), "parts")
        turned, rest = (node.emit(relax.TupleGetItem(parts, place), "part") for place in (0, 1))
    turned = _turned(node, turned, cosine, sine)
    result = turned if rest is None else node.emit(relax.op.concat([turned, rest], 3), "whole")
    return node.reshaped(result, shape)


def _turned(node: Node, data: Any, cosine: Any, sine: Any) -> Any:
    """Pairs of the last dimension, beside each other if ``interleaved``, turned by their angles."""
    shape, interleaved = shape_of(data), bool(node.attributes.get("interleaved", 0))
    pairs = [*shape[:3], shape[3] // 2, 2] if interleaved else [*shape[:3], 2, shape[3] // 2]
    axis = 4 if interleaved else 3
    halves = node.emit(relax.op.split(node.emit(node.reshaped(data, pairs), "pairs"), 2, axis), "halves")
    first, second = (
        node.emit(relax.op.squeeze(node.emit(relax.TupleGetItem(halves, place), "half"), [axis]), "half")
        for place in (0, 1)
    )

    def product(left: Any, right: Any) -> Any:
        return node.emit(relax.op.multiply(left, right), "product")

    one = node.emit(relax.op.subtract(product(first, cosine), product(second, sine)), "first")
    other = node.emit(relax.op.add(product(second, cosine), product(first, sine)), "second")
    return node.emit(node.reshaped(node.emit(relax.op.stack([one, other], axis), "pairs"), shape), "turned")


def _angles(node: Node, place: int, images: Any, rows: Any, along: int) -> Any:
    """What the cosines or sines are at each row, broadcast along the heads.

    Positions are [N, S], or [1], that of the first row of all images.
    """
    positions = shape_of(node.input(1))
    if len(positions) == 1 and same(positions[0], 1):
        later = node.emit(relax.op.arange(0, node.plain(rows), 1, "int64"), "rows")
        first = node.emit(node.cast(node.input(1), "int64"), "position")
        found = node.emit(relax.op.expand_dims(node.emit(relax.op.add(later, first), "positions"), 0), "one")
    elif len(positions) == 2:
        found = node.emit(node.cast(node.input(1), "int64"), "positions")
    else:
        raise Unsupported(f"has positions {written(positions)} where [1] or {written([images, rows])} is due")
    taken = node.emit(relax.op.take(node.tensor(place), found, 0, "clip"), "angles")
    return node.emit(relax.op.expand_dims(taken, [along]), "angles")


CONVERTERS: dict[str, Converter] = {"RotaryEmbedding": _rotary_embedding}
