"""GroupQueryAttention of com.microsoft, with which decoders attend to what they have read before.

Letters of shapes: N images, S queries, H heads of D features each, G heads of keys and values, each of which
H / G heads of queries share, P earlier keys in a buffer, L keys in the buffer that comes out.
"""

from dataclasses import replace
from typing import Any

from tvm import relax

from relay_layout.frontend.extents.arithmetic import greatest, same, simplify
from relay_layout.frontend.onnx.agreement import added
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import rotary
from relay_layout.frontend.onnx.operators.attention import scaled
from relay_layout.frontend.values import Unsupported, Value, dtype_of, float_limits, shape_of, written
from relay_layout.ir import Extent, scalar

_QUERY, _KEY, _VALUE, _PAST_KEY, _PAST_VALUE, _LAST, _TOTAL, _COSINE, _SINE, _POSITIONS, _BIAS, _SINK = range(
    12
)
"""Places of inputs: ``_LAST`` has the number of keys of each image less one, ``_TOTAL`` the largest."""


def _grouped_query_attention(node: Node) -> Value:
    """Causal attention [N, S, H D], and the keys and values [N, G, L, D].

    New keys follow as many earlier ones as each image has; behind them the buffers hold zeros.
    """
    _check_attributes(node)
    triple = _projections(node)
    batch, rows, _ = shape_of(triple[0])
    last = _last_keys(node, batch)
    before = _numbers_before(node, last, rows)
    steps = node.emit(relax.op.arange(0, node.plain(rows), 1, "int64"), "steps")
    column = node.emit(relax.op.expand_dims(before, 1), "column")
    positions = node.emit(relax.op.add(column, steps), "positions")
    if node.attributes.get("do_rotary", 0):
        given = node.input(_POSITIONS) if node.has(_POSITIONS) else positions
        heads = int(node.attributes["num_heads"]), int(node.attributes["kv_num_heads"])
        triple[:2] = [_turned(node, data, given, count) for data, count in zip(triple, heads, strict=False)]
    (total,) = node.extents(_TOTAL)
    key, value = (
        _with_earlier(node, data, past, before, total)
        for data, past in zip(triple[1:], (_PAST_KEY, _PAST_VALUE), strict=True)
    )
    result = _attended(node, triple[0], key, value, (positions, last))
    return [node.reshaped(result, shape_of(triple[0])), key, value][: len(node.outputs)]


def _check_attributes(node: Node) -> None:
    named = ["qk_output"] if node.attributes.get("qk_output", 0) else []
    named += [
        name for name in ("k_quant_type", "v_quant_type") if node.attributes.get(name, "NONE") != "NONE"
    ]
    if any(map(node.has, range(_SINK + 1, len(node.inputs)))):
        named.append("inputs after head_sink")
    if named:
        raise Unsupported(f"has {' and '.join(named)}, which is not supported: export it without")
    heads, groups = (int(node.attributes[name]) for name in ("num_heads", "kv_num_heads"))
    if heads < 1 or groups < 1 or heads % groups:
        raise Unsupported(f"has {heads} heads that share {groups} heads of keys")


def _projections(node: Node) -> list[Any]:
    """Queries [N, S, H D], keys and values [N, S, G D], which may come as one tensor side by side."""
    shape, heads = shape_of(node.input(_QUERY)), int(node.attributes["num_heads"])
    groups = int(node.attributes["kv_num_heads"])
    is_packed = not node.has(_KEY)
    parts = heads + 2 * groups if is_packed else heads
    if len(shape) != 3 or not isinstance(shape[2], int) or shape[2] % parts:
        raise Unsupported(f"attends in {written(shape)} with {heads} heads that share {groups}")
    depth = shape[2] // parts
    if is_packed:
        ends = [heads * depth, (heads + groups) * depth]
        whole = node.emit(relax.op.split(node.tensor(_QUERY), ends, 2), "parts")
        return [node.emit(relax.TupleGetItem(whole, place), "part") for place in range(3)]
    for place in (_KEY, _VALUE):
        due = [*shape[:2], groups * depth]
        given = shape_of(node.input(place))
        if len(given) != 3 or not all(map(node.requirements.assume_equal, given, due)):
            raise Unsupported(f"has {written(given)} for its input {place} where {written(due)} is due")
    return [node.tensor(place) for place in (_QUERY, _KEY, _VALUE)]


def _last_keys(node: Node, batch: Extent) -> Any:
    """The place of each image's last key, [N] in int64."""
    given = node.emit(node.cast(node.input(_LAST), "int64"), "last")
    return node.emit(node.reshaped(given, [batch]), "last")


def _numbers_before(node: Node, last: Any, rows: Extent) -> Any:
    """How many keys each image has before its first query, [N] in int64."""
    first = node.emit(relax.op.subtract(last, scalar(node.emit, node.plain(simplify(rows - 1)))), "first")
    # Sequences that are shorter than their queries have queries behind their ends.
    return node.emit(relax.op.maximum(first, relax.const(0, "int64")), "before")


def _turned(node: Node, data: Any, positions: Value, heads: int) -> Any:
    named = {"num_heads": heads, "interleaved": node.attributes.get("rotary_interleaved", 0)}
    inputs = data, positions, node.input(_COSINE), node.input(_SINE)
    inner = replace(node, attributes=named, inputs=inputs)
    return node.emit(node.expression(rotary.CONVERTERS["RotaryEmbedding"](inner)), "turned")


def _with_earlier(node: Node, data: Any, place: int, before: Any, total: Extent) -> Any:
    """Keys or values [N, S, G D] as [N, G, L, D], behind as many of the earlier ones as ``before`` says."""
    batch, rows, features = shape_of(data)
    groups = int(node.attributes["kv_num_heads"])
    new = node.emit(node.reshaped(data, [batch, rows, groups, features // groups]), "new")
    past = shape_of(node.input(place)) if node.has(place) else [batch, groups, 0, features // groups]
    # As many of keys as of values.
    earlier_keys = shape_of(node.input(_PAST_KEY)) if node.has(_PAST_KEY) else []
    due = [batch, groups, earlier_keys[2] if len(earlier_keys) == 4 else 0, features // groups]
    if len(past) != 4 or not all(map(node.requirements.assume_equal, past, due)):
        raise Unsupported(f"has {written(past)} for its input {place} where {written(due)} is due")
    length, together = node.plain(greatest(total, past[2])), new
    if not same(past[2], 0):
        earlier = node.emit(relax.op.permute_dims(node.tensor(place), [0, 2, 1, 3]), "earlier")
        together = node.emit(relax.op.concat([earlier, new], 1), "together")
    # Every image has its own number of earlier keys: where each row of its buffer is among the others.
    places = node.emit(relax.op.arange(0, length, 1, "int64"), "places")
    start = node.emit(relax.op.expand_dims(before, 1), "start")
    later = node.emit(relax.op.subtract(places, start), "later")
    moved = node.emit(relax.op.add(later, scalar(node.emit, node.plain(past[2]))), "moved")
    is_earlier = node.emit(relax.op.less(places, start), "is_earlier")
    index = node.emit(relax.op.where(is_earlier, places, moved), "index")
    end = scalar(node.emit, node.plain(simplify(past[2] + rows - 1)))
    index = node.emit(relax.op.minimum(index, end), "index")
    index = node.emit(relax.op.expand_dims(index, 2), "index")
    found = node.emit(relax.op.gather_nd(together, index, 1), "found")
    inside = node.emit(relax.op.less(later, scalar(node.emit, node.plain(rows))), "inside")
    inside = node.emit(relax.op.expand_dims(inside, [2, 3]), "inside")
    kept = node.emit(relax.op.where(inside, found, node.like(0, found)), "kept")
    return node.emit(relax.op.permute_dims(kept, [0, 2, 1, 3]), "present")


def _attended(node: Node, query: Any, key: Any, value: Any, places: tuple[Any, Any]) -> Any:
    """Attention [N, S, H, D] of queries to the keys up to them; ``places`` as :func:`_seen` has them."""
    (batch, rows, features), (_, groups, length, depth) = shape_of(query), shape_of(key)
    heads = int(node.attributes["num_heads"])
    if features != heads * depth:
        raise Unsupported(f"attends in {written(shape_of(query))} to keys of {depth} features")
    parts = node.emit(node.reshaped(query, [batch, rows, heads, depth]), "parts")
    turned = node.emit(relax.op.permute_dims(parts, [0, 2, 1, 3]), "heads")
    # Heads that share keys are rows of one product.
    together = simplify(rows * (heads // groups))
    shared = node.emit(node.reshaped(turned, [batch, groups, together, depth]), "shared")
    keys = node.emit(relax.op.permute_dims(key, [0, 1, 3, 2]), "keys")
    scores = node.emit(relax.op.matmul(shared, keys), "scores")
    scores = node.emit(node.reshaped(scores, [batch, heads, rows, length]), "scores")
    scores = scaled(node, scores, depth)
    if cap := node.attributes.get("softcap", 0.0):
        bent = node.emit(relax.op.tanh(node.emit(relax.op.divide(scores, node.like(cap, scores)))), "bent")
        scores = node.emit(relax.op.multiply(bent, node.like(cap, scores)), "capped")
    if node.has(_BIAS):
        scores = added(node, scores, node.input(_BIAS))
    least = node.like(float(float_limits(dtype_of(scores)).min), scores)
    scores = node.emit(relax.op.where(_seen(node, *places, length), scores, least), "seen")
    shares = node.emit(_shares(node, scores), "shares")
    shares = node.emit(node.reshaped(shares, [batch, groups, together, length]), "shares")
    mixed = node.emit(relax.op.matmul(shares, value), "mixed")
    apart = node.emit(node.reshaped(mixed, [batch, heads, rows, depth]), "apart")
    return node.emit(relax.op.permute_dims(apart, [0, 2, 1, 3]), "rows")


def _shares(node: Node, scores: Any) -> Any:
    """The share of each key in scores [N, H, S, L], by softmax, where a part may go to no key at all.

    That part has a score of its own: a number for each head, or zero where ``smooth_softmax`` is 1.
    """
    if not (node.has(_SINK) or node.attributes.get("smooth_softmax", 0) == 1):
        return relax.op.nn.softmax(scores, -1)
    sink = node.like(0, scores)
    if node.has(_SINK):
        heads = shape_of(scores)[1]
        sink = node.emit(node.expression(node.reshaped(node.input(_SINK), [1, heads, 1, 1])), "sink")
    largest = node.emit(relax.op.max(scores, -1, keepdims=True), "largest")
    largest = node.emit(relax.op.maximum(largest, sink), "largest")
    powers, lost = (
        node.emit(relax.op.exp(node.emit(relax.op.subtract(value, largest), "less")), "powers")
        for value in (scores, sink)
    )
    total = node.emit(relax.op.sum(powers, -1, keepdims=True), "total")
    return relax.op.divide(powers, node.emit(relax.op.add(total, lost), "total"))


def _seen(node: Node, positions: Any, last: Any, length: Extent) -> Any:
    """Whether queries at ``positions`` [N, S] see each key, [N, 1, S, L].

    They see those up to them and to the ``last`` one [N], or as many of those as a window is wide.
    """
    places = node.places(length)
    column = node.emit(relax.op.expand_dims(positions, 2), "column")
    end = node.emit(relax.op.minimum(column, node.emit(relax.op.expand_dims(last, [1, 2]), "end")), "end")
    seen = node.emit(relax.op.less_equal(places, end), "seen")
    window = int(node.attributes.get("local_window_size", -1))
    if window > 0:
        first = node.emit(relax.op.subtract(column, relax.const(window, "int64")), "first")
        near = node.emit(relax.op.greater(places, first), "near")
        seen = node.emit(relax.op.logical_and(seen, near), "seen")
    return node.emit(relax.op.expand_dims(seen, [1]), "seen")


CONVERTERS: dict[str, Converter] = {"GroupQueryAttention": _grouped_query_attention}
