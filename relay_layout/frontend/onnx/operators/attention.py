"""Attention of com.microsoft, in which optimizers of transformers write what exporters spell out.

Letters of shapes: N images, S queries, T keys, H heads of D features each.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import same, simplify
from relay_layout.frontend.onnx.agreement import added
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.dynamic_quantization import product_to_real
from relay_layout.frontend.values import Unsupported, Value, dtype_of, float_limits, shape_of, written
from relay_layout.ir import Extent


def _self_attention(project: Callable[[Node], Any], mask: int, past: int, bias: int | None) -> Converter:
    """Attention among the rows of one tensor [N, S, C], projected to queries, keys and values [N, S, 3 H D].

    ``mask``, ``past`` and ``bias`` are places of inputs: what may be attended to, earlier keys and values,
    what is added to scores.
    """

    def convert(node: Node) -> Value:
        if node.attributes.get("do_rotary", 0):
            raise Unsupported("has do_rotary=1, which is not supported: turn rows by RotaryEmbedding")
        _check_buffer(node, past + 2)
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
        earlier = _pair(node, past) if node.has(past) else []
        result, key, value = _attended(node, triple, mask, bias, earlier)
        if not any(node.outputs[1:]):
            return [result]
        return [result, relax.op.stack([key, value], 0)]

    return convert


def _pair(node: Node, place: int) -> list[Any]:
    """The keys and the values of one tensor [2, N, H, T, D]."""
    parts = node.emit(relax.op.split(node.tensor(place), 2, 0), "earlier")
    halves = [node.emit(relax.TupleGetItem(parts, half), "earlier") for half in (0, 1)]
    return [node.emit(relax.op.squeeze(half, [0]), "earlier") for half in halves]


def _check_buffer(node: Node, length: int) -> None:
    if node.attributes.get("past_present_share_buffer", 0) or node.has(length):
        raise Unsupported(
            "keeps earlier keys and values in a buffer that is longer than they are, which is not supported: "
            "export it with past_present_share_buffer=0"
        )


def _projected(node: Node) -> Any:
    product = relax.op.matmul(node.tensor(0), node.tensor(1))
    return relax.op.add(node.emit(product, "product"), node.tensor(2)) if node.has(2) else product


def _projected_bytes(node: Node) -> Any:
    """By integers, which scales make numbers of."""
    operands = tuple(node.optional(place) for place in (0, 1, 3, 4, 6, 7, 2))
    return product_to_real(replace(node, inputs=operands))


def _multi_head_attention(node: Node) -> Value:
    """Queries [N, S, H D] and keys and values [N, T, H D], or [N, H, T, D] where they have heads already.

    Also keys and values, or all three, packed into one tensor [N, T, H, 2, D] or [N, S, H, 3, D].
    """
    _check_buffer(node, 8)
    ranks = [len(shape_of(node.input(place))) if node.has(place) else 0 for place in range(3)]
    match ranks:
        case [3, 3, 3] | [3, 4, 4]:
            triple = [node.tensor(place) for place in range(3)]
        case [3, 5, 0]:
            triple = [node.tensor(0), *_unpacked(node, 1, 2)]
        case [5, 0, 0]:
            triple = _unpacked(node, 0, 3)
        case _:
            shapes = [written(shape_of(value)) for value in node.inputs[:3] if value is not None]
            raise Unsupported(f"attends in {' and '.join(shapes)} where [N,S,C], [N,T,C] and [N,T,C] are due")
    if node.has(3):
        triple = _biased(node, triple)
    earlier = [node.tensor(place) for place in (6, 7) if node.has(place)]
    if len(earlier) == 1 or (earlier and ranks[1] == 4):
        raise Unsupported(
            "has earlier keys or values, of one kind alone or beside keys that have heads already, "
            "which is not supported: give it both, and keys and values [N,T,C]"
        )
    return _attended(node, triple, 4, 5, earlier)


def _unpacked(node: Node, place: int, count: int) -> list[Any]:
    """The tensors [N, S, H D] that one of [N, S, H, count, D] holds."""
    shape = shape_of(node.input(place))
    if not same(shape[3], count):
        raise Unsupported(f"has {written(shape)} for its input {place} where [N,S,H,{count},D] is due")
    parts = node.emit(relax.op.split(node.tensor(place), count, 3), "parts")
    flat = [*shape[:2], shape[2] * shape[4]]
    return [
        node.emit(node.reshaped(node.emit(relax.TupleGetItem(parts, part), "part"), flat), "part")
        for part in range(count)
    ]


def _biased(node: Node, triple: list[Any]) -> list[Any]:
    """Queries, keys and values with the part of the node's bias that is theirs.

    Keys and values that have heads already are as they will be used: they have had theirs.
    """
    bias, first, result = node.constant(3), 0, []
    for name, tensor in zip(("query", "key", "value"), triple, strict=True):
        shape = shape_of(tensor)
        if len(shape) == 4:
            result.append(tensor)
            continue
        part = np.ascontiguousarray(bias[first : first + shape[-1]])
        if part.shape != (shape[-1],):
            raise Unsupported(f"has a bias of {bias.size} elements for {written(shape)}")
        first += shape[-1]
        result.append(node.emit(relax.op.add(tensor, node.expression(part)), name))
    return result


def _attended(node: Node, triple: list[Any], mask: int, bias: int | None, earlier: list[Any]) -> list[Value]:
    """Attention of H heads, [N, S, H D], and its keys and values [N, H, T, D].

    ``earlier`` keys and values, if there are any, come before those of ``triple``.
    """
    query, key, value = (_heads(node, tensor) for tensor in triple)
    if earlier:
        key, value = (
            node.emit(relax.op.concat([before, now], 2), "present")
            for before, now in zip(earlier, (key, value), strict=True)
        )
    batch, _, rows, depth = shape_of(query)
    turned = node.emit(relax.op.permute_dims(key, [0, 1, 3, 2]), "turned")
    scores = node.emit(relax.op.matmul(query, turned), "scores")
    scores = scaled(node, scores, depth)
    before = shape_of(earlier[0])[2] if earlier else 0
    for term in _terms(node, scores, mask, bias, before):
        scores = added(node, scores, term)
    shares = node.emit(relax.op.nn.softmax(scores, -1), "shares")
    together = node.emit(relax.op.matmul(shares, value), "together")
    apart = node.emit(relax.op.permute_dims(together, [0, 2, 1, 3]), "apart")
    features = shape_of(value)[1] * shape_of(value)[3]
    return [node.reshaped(apart, [batch, rows, features]), key, value]


def scaled(node: Node, scores: Any, depth: Extent) -> Any:
    """Products of queries and keys of ``depth`` features, times the attribute ``scale``."""
    scale = node.attributes.get("scale", 0.0) or 1 / math.sqrt(depth)
    return node.emit(relax.op.multiply(scores, node.like(scale, scores)), "scores")


def _heads(node: Node, tensor: Any) -> Any:
    """[N, S, H D] as [N, H, S, D]."""
    shape, heads = shape_of(tensor), int(node.attributes["num_heads"])
    if len(shape) == 4:
        return tensor
    if heads < 1 or not isinstance(shape[2], int) or shape[2] % heads:
        raise Unsupported(f"attends in {written(shape)} with {heads} heads")
    parts = node.reshaped(tensor, [*shape[:2], heads, shape[2] // heads])
    return node.emit(relax.op.permute_dims(node.emit(parts, "parts"), [0, 2, 1, 3]), "heads")


def _terms(node: Node, scores: Any, mask: int, bias: int | None, before: Extent) -> list[Any]:
    """What is added to scores [N, H, S, T]: the bias, and a number far below zero where a mask holds zero.

    Before the key of the first query there are ``before`` others.
    """
    dtype, found = dtype_of(scores), []
    if bias is not None and node.has(bias):
        found.append(node.tensor(bias))
    if node.has(mask):
        attended = _mask(node, mask, shape_of(scores)[3])
        far = node.attributes.get("mask_filter_value", -10000.0)
        outside = relax.op.where(attended, relax.const(0.0, dtype), relax.const(far, dtype))
        found.append(node.emit(outside, "outside"))
    if node.attributes.get("unidirectional", 0):
        found.append(_from_earlier(node, scores, before))
    return found


def _mask(node: Node, place: int, keys: Extent) -> Any:
    """Whether queries attend to keys, of shapes that broadcast to [N, H, S, T].

    The input is a number of keys for each image, or where keys end for each and then where they start, or
    holds zeros where there is nothing to attend to.
    """
    shape, images = shape_of(node.input(place)), shape_of(node.input(0))[0]
    has_starts = len(shape) == 1 and same(shape[0], simplify(2 * images))
    if len(shape) not in (1, 2, 3, 4) or (len(shape) == 1 and not has_starts and not same(shape[0], images)):
        raise Unsupported(f"has a mask {written(shape)} where [N], [2 N], [N,T], [N,S,T] or [N,1,S,T] is due")
    if len(shape) == 1:
        places = node.places(keys, dtype_of(node.input(place)))
        numbers = node.emit(relax.op.expand_dims(node.tensor(place), 1), "numbers")
        if has_starts:
            parts = node.emit(relax.op.split(numbers, 2, 0), "parts")
            numbers, starts = (node.emit(relax.TupleGetItem(parts, part), "numbers") for part in (0, 1))
        attended = relax.op.less(places, numbers)
        if has_starts:
            begun = node.emit(relax.op.greater_equal(places, starts), "begun")
            attended = relax.op.logical_and(node.emit(attended, "attended"), begun)
    else:
        attended = relax.op.greater(node.tensor(place), node.like(0, node.input(place)))
    axes = {1: [1, 2], 2: [1, 2], 3: [1], 4: []}[len(shape)]
    attended = node.emit(attended, "attended")
    return node.emit(relax.op.expand_dims(attended, axes), "attended") if axes else attended


def _from_earlier(node: Node, scores: Any, before: Extent) -> Any:
    """The least number where a key comes after its query, zero elsewhere."""
    dtype, (rows, count) = dtype_of(scores), shape_of(scores)[2:]
    if not node.requirements.assume_equal(simplify(rows + before), count):
        raise Unsupported(
            f"has unidirectional=1 for queries and keys {written([rows, count])}, which are not as many"
        )
    queries, keys = (
        node.emit(relax.op.arange(first, node.plain(simplify(first + extent)), 1, "int64"), "places")
        for first, extent in ((before, rows), (0, count))
    )
    column = node.emit(relax.op.expand_dims(queries, 1), "column")
    is_later = node.emit(relax.op.greater(keys, column), "is_later")
    least = float(float_limits(dtype).min)
    return node.emit(relax.op.where(is_later, relax.const(least, dtype), relax.const(0.0, dtype)), "later")


CONVERTERS: dict[str, Converter] = {
    "Attention": _self_attention(_projected, mask=3, past=4, bias=5),
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _self_attention(_projected_bytes, mask=5, past=8, bias=None),
}
