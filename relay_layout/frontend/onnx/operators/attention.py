"""Attention of com.microsoft, in which optimizers of transformers write what exporters spell out.

Letters of shapes: N images, S queries, T keys, H heads of D features each.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.dynamic_quantization import product_to_real
from relay_layout.frontend.onnx.values import Extent, Unsupported, Value, dtype_of, same, shape_of, written


def _self_attention(project: Callable[[Node], Any], mask: int, past: int, bias: int | None) -> Converter:
    """Attention among the rows of one tensor [N, S, C], projected to queries, keys and values [N, S, 3 H D].

    ``mask``, ``past`` and ``bias`` are places of inputs: what may be attended to, earlier keys and values,
    what is added to scores.
    """

    def convert(node: Node) -> Value:
        if node.has(past):
            raise Unsupported("has earlier keys and values, which is not supported")
        if node.attributes.get("do_rotary", 0):
            raise Unsupported("has do_rotary=1, which is not supported")
        if len(shape_of(node.input(0))) != 3:
            raise Unsupported(f"attends in {written(shape_of(node.input(0)))}, which should be [N,S,C]")
        features = shape_of(node.input(1))[-1]
        sizes = list(node.attributes.get("qkv_hidden_sizes", ())) or [features // 3] * 3
        if len(sizes) != 3 or sum(sizes) != features:
            raise Unsupported(f"has qkv_hidden_sizes {sizes} for weights of {features} columns")
        whole = node.emit(project(node), "projected")
        parts = node.emit(relax.op.split(whole, [sizes[0], sizes[0] + sizes[1]], 2), "parts")
        names = ("query", "key", "value")
        triple = [node.emit(relax.TupleGetItem(parts, place), name) for place, name in enumerate(names)]
        return _attended(node, triple, mask, bias)[:1]

    return convert


def _projected(node: Node) -> Any:
    product = relax.op.matmul(node.tensor(0), node.tensor(1))
    return relax.op.add(node.emit(product, "product"), node.tensor(2)) if node.has(2) else product


def _projected_bytes(node: Node) -> Any:
    """By integers, which scales make numbers of."""
    operands = tuple(node.optional(place) for place in (0, 1, 3, 4, 6, 7, 2))
    return product_to_real(replace(node, inputs=operands))


def _multi_head_attention(node: Node) -> Value:
    """Queries [N, S, H D] and keys and values [N, T, H D], or [N, H, T, D] where they have heads already."""
    if any(map(node.has, (6, 7, 8, 9))):
        raise Unsupported("has earlier keys and values, which is not supported")
    ranks = [len(shape_of(node.input(place))) if node.has(place) else 0 for place in range(3)]
    if ranks[0] != 3 or ranks[1:] not in ([3, 3], [4, 4]):
        raise Unsupported("has queries, keys and values packed into one tensor, which is not supported")
    triple = [node.tensor(place) for place in range(3)]
    if node.has(3):
        triple = _biased(node, triple)
    return _attended(node, triple, 4, 5)


def _biased(node: Node, triple: list[Any]) -> list[Any]:
    """Queries, keys and values with the part of the node's bias that is theirs."""
    bias, first, result = node.constant(3), 0, []
    for name, tensor in zip(("query", "key", "value"), triple, strict=True):
        shape = shape_of(tensor)
        if len(shape) == 4:
            raise Unsupported("has a bias beside keys that have heads already, which is not supported")
        part = np.ascontiguousarray(bias[first : first + shape[-1]])
        if part.shape != (shape[-1],):
            raise Unsupported(f"has a bias of {bias.size} elements for {written(shape)}")
        first += shape[-1]
        result.append(node.emit(relax.op.add(tensor, node.expression(part)), name))
    return result


def _attended(node: Node, triple: list[Any], mask: int, bias: int | None) -> list[Value]:
    """Attention of H heads, [N, S, H D], and its keys and values [N, H, T, D]."""
    query, key, value = (_heads(node, tensor) for tensor in triple)
    batch, _, rows, depth = shape_of(query)
    turned = node.emit(relax.op.permute_dims(key, [0, 1, 3, 2]), "turned")
    scores = node.emit(relax.op.matmul(query, turned), "scores")
    scale = node.attributes.get("scale", 0.0) or 1 / math.sqrt(depth)
    scores = node.emit(relax.op.multiply(scores, node.like(scale, scores)), "scores")
    for added in _added(node, scores, mask, bias):
        scores = node.emit(relax.op.add(scores, added), "scores")
    shares = node.emit(relax.op.nn.softmax(scores, -1), "shares")
    together = node.emit(relax.op.matmul(shares, value), "together")
    apart = node.emit(relax.op.permute_dims(together, [0, 2, 1, 3]), "apart")
    features = shape_of(value)[1] * shape_of(value)[3]
    return [node.reshaped(apart, [batch, rows, features]), key, value]


def _heads(node: Node, tensor: Any) -> Any:
    """[N, S, H D] as [N, H, S, D]."""
    shape, heads = shape_of(tensor), int(node.attributes["num_heads"])
    if len(shape) == 4:
        return tensor
    if heads < 1 or not isinstance(shape[2], int) or shape[2] % heads:
        raise Unsupported(f"attends in {written(shape)} with {heads} heads")
    parts = node.reshaped(tensor, [*shape[:2], heads, shape[2] // heads])
    return node.emit(relax.op.permute_dims(node.emit(parts, "parts"), [0, 2, 1, 3]), "heads")


def _added(node: Node, scores: Any, mask: int, bias: int | None) -> list[Any]:
    """What is added to scores [N, H, S, T]: the bias, and a number far below zero where a mask holds zero."""
    dtype, found = dtype_of(scores), []
    if bias is not None and node.has(bias):
        found.append(node.tensor(bias))
    if node.has(mask):
        attended = _mask(node, mask, shape_of(scores)[3])
        far = node.attributes.get("mask_filter_value", -10000.0)
        outside = relax.op.where(attended, relax.const(0.0, dtype), relax.const(far, dtype))
        found.append(node.emit(outside, "outside"))
    if node.attributes.get("unidirectional", 0):
        found.append(_from_earlier(node, scores))
    return found


def _mask(node: Node, place: int, keys: Extent) -> Any:
    """Whether queries attend to keys, of shapes that broadcast to [N, H, S, T].

    The input is a number of keys for each image, or holds zeros where there is nothing to attend to.
    """
    shape = shape_of(node.input(place))
    if len(shape) not in (1, 2, 3, 4) or (len(shape) == 1 and not same(shape[0], shape_of(node.input(0))[0])):
        raise Unsupported(f"has a mask {written(shape)} where [N], [N,T], [N,S,T] or [N,1,S,T] is due")
    if len(shape) == 1:
        places = node.emit(relax.op.arange(0, node.plain(keys), 1, dtype_of(node.input(place))), "places")
        numbers = node.emit(relax.op.expand_dims(node.tensor(place), 1), "numbers")
        attended = relax.op.less(places, numbers)
    else:
        attended = relax.op.greater(node.tensor(place), node.like(0, node.input(place)))
    axes = {1: [1, 2], 2: [1, 2], 3: [1], 4: []}[len(shape)]
    attended = node.emit(attended, "attended")
    return node.emit(relax.op.expand_dims(attended, axes), "attended") if axes else attended


def _from_earlier(node: Node, scores: Any) -> Any:
    """The least number where a key comes after its query, zero elsewhere."""
    dtype, extents = dtype_of(scores), shape_of(scores)[2:]
    if not node.requirements.assume_equal(*extents):
        raise Unsupported(f"has unidirectional=1 for queries and keys {written(extents)}, not of as many")
    queries, keys = (
        node.emit(relax.op.arange(0, node.plain(extent), 1, "int64"), "places") for extent in extents
    )
    column = node.emit(relax.op.expand_dims(queries, 1), "column")
    is_later = node.emit(relax.op.greater(keys, column), "is_later")
    least = float(np.finfo(dtype).min)
    return node.emit(relax.op.where(is_later, relax.const(least, dtype), relax.const(0.0, dtype)), "later")


CONVERTERS: dict[str, Converter] = {
    "Attention": _self_attention(_projected, mask=3, past=4, bias=5),
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _self_attention(_projected_bytes, mask=5, past=8, bias=None),
}
