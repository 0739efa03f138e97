"""Mixtures of experts as com.microsoft has them: small networks, of which a router weighs some for each row.

All experts are computed for all rows, side by side in two products; those that are not chosen weigh nothing.
Letters of shapes: T rows, E experts, H features, I features within an expert.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import product
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.packed_weights import BITS, unpacked
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of, written

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": relax.op.nn.gelu_tanh,
    "identity": lambda data: data,
    "relu": relax.op.nn.relu,
    "silu": relax.op.nn.silu,
}

_GATED = "swiglu"


def _mixture(node: Node) -> Value:
    """The mixture of experts for rows [..., H], by what a router gives each expert, [T, E]."""
    kind = node.attributes.get("activation_type", "relu")
    if kind not in (*_ACTIVATIONS, _GATED):
        known = ", ".join((*_ACTIVATIONS, _GATED))
        raise Unsupported(f"has the activation_type '{kind}', which is not supported; {known} are")
    if node.attributes.get("use_sparse_mixer", 0) or node.attributes.get("swiglu_limit_after_activation", 0):
        raise Unsupported(
            "has use_sparse_mixer or swiglu_limit_after_activation, which is not supported: "
            "write the router and the activation as operators of their own"
        )
    shape = shape_of(node.input(0))
    rows, last = product(shape[:-1]), node.constant(4)
    experts, width, inner = last.shape
    data = node.emit(node.expression(node.reshaped(node.input(0), [rows, width])), "rows")
    weights = node.emit(_router_weights(node, rows, experts), "weights")
    hidden = _gated(node, data) if kind == _GATED else _ACTIVATIONS[kind](_first_product(node, data, 2))
    hidden = node.emit(hidden, "hidden")
    if shape_of(hidden)[-1] != experts * inner:
        raise Unsupported(
            f"has experts of {written(list(node.constant(2).shape))} and {written(list(last.shape))}"
        )
    apart = node.emit(node.expression(node.reshaped(hidden, [rows, experts, inner])), "experts")
    weighed = relax.op.multiply(apart, node.emit(relax.op.expand_dims(weights, 2), "weights"))
    together = node.expression(node.reshaped(node.emit(weighed, "weighed"), [rows, experts * inner]))
    matrix = np.ascontiguousarray(last.swapaxes(1, 2).reshape(experts * inner, width))
    result = node.emit(relax.op.matmul(node.emit(together, "together"), node.expression(matrix)), "result")
    if node.has(5):
        bias = node.emit(relax.op.matmul(weights, node.expression(node.constant(5))), "bias")
        result = node.emit(relax.op.add(result, bias), "result")
    return node.reshaped(result, shape)


def _router_weights(node: Node, rows: Any, experts: int) -> Any:
    """What each expert weighs for each row, [T, E]: nothing but for the ``k`` most probable ones."""
    given, count = shape_of(node.input(1)), int(node.attributes.get("k", 1))
    if len(given) != 2 or given[1] != experts or not 1 <= count <= experts:
        raise Unsupported(f"chooses {count} of {experts} experts by {written(given)}")
    node.requirements.assume_equal(given[0], rows)
    probable = node.emit(relax.op.nn.softmax(node.tensor(1), axis=1), "probable")
    found = node.emit(relax.op.topk(probable, count, 1, "both", True, "int64"), "found")
    best, places = (node.emit(relax.TupleGetItem(found, index), "best") for index in range(2))
    if node.attributes.get("normalize_routing_weights", 0):
        total = node.emit(relax.op.sum(best, 1, keepdims=True), "total")
        best = node.emit(relax.op.divide(best, total), "best")
    zeros = node.emit(relax.op.zeros_like(probable), "zeros")
    return relax.op.scatter_elements(zeros, places, best, 1)


def _first_product(node: Node, data: Any, place: int, part: slice = slice(None)) -> Any:
    """What the first layers of all experts give, side by side, by ``part`` of each one's matrix [.., H].

    The matrices are an input, and the biases the one after it.
    """
    matrices = node.constant(place)[:, part]
    flat = np.ascontiguousarray(matrices.reshape(-1, matrices.shape[2]).T)
    result = node.emit(relax.op.matmul(data, node.expression(flat)), "product")
    if not node.has(place + 1):
        return result
    bias = np.ascontiguousarray(node.constant(place + 1)[:, part].reshape(-1))
    return node.emit(relax.op.add(result, node.expression(bias)), "biased")


def _gated(node: Node, data: Any) -> Any:
    """G sigmoid(alpha G) (L + beta): of one layer's pairs or halves, or of two layers."""
    fused, inner = int(node.attributes.get("swiglu_fusion", 0)), node.constant(2).shape[1] // 2
    parts: dict[int, Sequence[tuple[int, slice]]] = {
        0: [(2, slice(None)), (6, slice(None))],
        1: [(2, slice(0, None, 2)), (2, slice(1, None, 2))],
        2: [(2, slice(inner)), (2, slice(inner, None))],
    }
    if fused not in parts or (not fused and not node.has(6)):
        raise Unsupported(f"has swiglu_fusion={fused} without what that needs")
    gate, linear = (_first_product(node, data, place, part) for place, part in parts[fused])
    limit = node.attributes.get("swiglu_limit")
    if limit is not None:
        gate = node.emit(relax.op.minimum(gate, node.like(limit, gate)), "gate")
        linear = node.emit(relax.op.clip(linear, -limit, limit), "linear")
    alpha, beta = (node.attributes.get(f"activation_{name}", default) for name, default in _FACTORS)
    scaled = node.emit(relax.op.multiply(gate, node.like(alpha, gate)), "scaled")
    opened = node.emit(relax.op.multiply(gate, node.emit(relax.op.sigmoid(scaled), "open")), "opened")
    moved = node.emit(relax.op.add(linear, node.like(beta, linear)), "moved")
    return relax.op.multiply(opened, moved)


_FACTORS = ("alpha", 1.0), ("beta", 0.0)


def _packed_mixture(node: Node) -> Value:
    """A mixture whose matrices are integers of a few bits; its biases follow the scales of these."""
    named = [f"quant_type '{kind}'"] if (kind := node.attributes.get("quant_type", "int")) != "int" else []
    named += ["weights_prepacked=1"] if node.attributes.get("weights_prepacked", 0) == 1 else []
    named += ["inputs after fc3_zero_points"] if any(map(node.has, range(14, len(node.inputs)))) else []
    if named:
        raise Unsupported(f"has {' and '.join(named)}, which is not supported: export it without")
    if not node.attributes.get("normalize_routing_weights", 0):
        raise Unsupported(
            "has normalize_routing_weights=0, where ONNX Runtime normalizes them all the same: make it 1"
        )
    inputs = [node.input(0), node.input(1)]
    for layer, place in enumerate((2, 5, 8)):
        inputs += [_matrices(node, layer, place) if node.has(place) else None, node.optional(place + 2)]
    return _mixture(replace(node, operator="MoE", inputs=tuple(inputs)))


def _matrices(node: Node, layer: int, place: int) -> Array:
    """A layer's matrices [E, rows, columns], of numbers with a scale for each row or block of its columns."""
    given = node.attributes.get("expert_weight_bits", 4)
    bits = int(node.attributes.get(f"fc{layer + 1}_expert_weight_bits", given))
    if bits not in BITS:
        raise Unsupported(f"has weights of {bits} bits, which is not supported; those of {written(BITS)} are")
    integers = unpacked(node.constant(place), bits).astype("float32")
    scale = node.constant(place + 1).astype("float32")
    point = np.full(scale.shape, 2 ** (bits - 1), "float32")
    if node.has(11 + layer):
        point = unpacked(node.constant(11 + layer), bits)[..., : scale.shape[-1]].astype("float32")
    blocks = scale.shape[2] if scale.ndim == 3 else 1
    if scale.shape[:2] != integers.shape[:2] or point.shape != scale.shape or integers.shape[2] % blocks:
        raise Unsupported(
            f"has matrices of {written(list(integers.shape))} with scales of {written(list(scale.shape))}"
        )
    size = integers.shape[2] // blocks
    steps, origin = (part.reshape(*part.shape[:2], -1).repeat(size, 2) for part in (scale, point))
    numbers: Array = ((integers - origin) * steps).astype(dtype_of(node.input(0)))
    return numbers


CONVERTERS: dict[str, Converter] = {"MoE": _mixture, "QMoE": _packed_mixture}
