"""Support vector machines of ai.onnx.ml.

Letters of shapes: N rows of C features, V support vectors, K classes, P pairs of them, in the order
(0, 1), (0, 2), ..., (1, 2), ...
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.features import best_label, class_labels, rows, transformed
from relay_layout.frontend.values import Array, Unsupported, Value, shape_of
from topi_ext.compute.coupling import coupled

_LEAST = 1e-7
"""What probabilities of pairs stay away from 0 and 1."""


def _floats(node: Node, name: str) -> Array:
    return np.asarray(node.attributes.get(name, ()), "float32")


def _similarities(node: Node, vectors: Array) -> Any:
    """What the kernel gives for rows [N, C] and vectors [V, C]: [N, V]."""
    data, kind = rows(node), node.attributes.get("kernel_type", "LINEAR")
    if kind not in _KERNELS:
        raise Unsupported(f"has the kernel_type '{kind}', which is not supported; {', '.join(_KERNELS)} are")
    parameters = [*_floats(node, "kernel_params").tolist(), *(0.0, 0.0, 0.0)][:3]
    return _KERNELS[kind](node, data, vectors, *parameters)


def _product(node: Node, data: Any, vectors: Array, *_: float) -> Any:
    return node.emit(relax.op.matmul(data, node.expression(np.ascontiguousarray(vectors.T))), "product")


def _line(node: Node, data: Any, vectors: Array, gamma: float, start: float, _: float) -> Any:
    product = _product(node, data, vectors * np.float32(gamma))
    return node.emit(relax.op.add(product, node.like(start, product)), "line")


def _power(node: Node, data: Any, vectors: Array, gamma: float, start: float, degree: float) -> Any:
    line = _line(node, data, vectors, gamma, start, degree)
    return node.emit(relax.op.power(line, node.like(degree, line)), "power")


def _tangent(node: Node, data: Any, vectors: Array, *parameters: float) -> Any:
    return node.emit(relax.op.tanh(_line(node, data, vectors, *parameters)), "tangent")


def _nearness(node: Node, data: Any, vectors: Array, gamma: float, *_: float) -> Any:
    """By distances, which sums of squares and a product have too few digits of where features are large."""
    one = node.emit(relax.op.expand_dims(data, 1), "row")
    away = node.emit(relax.op.subtract(one, node.expression(vectors[None])), "away")
    distance = node.emit(relax.op.sum(node.emit(relax.op.multiply(away, away), "square"), 2), "distance")
    scaled = node.emit(relax.op.multiply(distance, node.like(-gamma, distance)), "scaled")
    return node.emit(relax.op.exp(scaled), "nearness")


_KERNELS: dict[str, Callable[..., Any]] = {
    "LINEAR": _product,
    "POLY": _power,
    "RBF": _nearness,
    "SIGMOID": _tangent,
}


def _vectors(node: Node, count: int) -> Array:
    """The support vectors [V, C]."""
    numbers, features = _floats(node, "support_vectors"), shape_of(rows(node))[1]
    if numbers.size != count * features:
        raise Unsupported(f"has {numbers.size} numbers for {count} support vectors of {features} features")
    return numbers.reshape(count, features)


def _sized(node: Node, name: str, count: int) -> Array:
    """An attribute of ``count`` floats."""
    numbers = _floats(node, name)
    if numbers.size != count:
        raise Unsupported(f"has {numbers.size} numbers in {name} where {count} are needed")
    return numbers


def _regression(node: Node) -> Value:
    """One number for each row, [N, 1]; with ``one_class`` 1 where it is more than 0, and else -1."""
    count = node.attributes.get("n_supports", 0)
    if count:
        similar = _similarities(node, _vectors(node, count))
        column = _sized(node, "coefficients", count).reshape(-1, 1)
    else:
        similar = rows(node)
        column = _sized(node, "coefficients", shape_of(similar)[1]).reshape(-1, 1)
    product = node.emit(relax.op.matmul(similar, node.expression(column)), "product")
    result = node.emit(relax.op.add(product, node.expression(_sized(node, "rho", 1))), "result")
    if not node.attributes.get("one_class", 0):
        return transformed(node, result)
    is_inside = node.emit(relax.op.greater(result, node.like(0.0, result)), "inside")
    return relax.op.where(is_inside, node.like(1.0, result), node.like(-1.0, result))


def _classification(node: Node) -> Value:
    """The label that most pairs decide for, [N], and scores.

    These are probabilities [N, K] by ``prob_a`` and ``prob_b``. Without them they are what pairs decide by,
    [N, P], of two classes beside its negative.
    """
    labels = class_labels(node, "classlabels_ints")
    counts = node.attributes.get("vectors_per_class", ())
    if len(counts) != len(labels) or len(labels) < 2:
        raise Unsupported(
            f"has support vectors for {len(counts)} of {len(labels)} classes, which is not supported: "
            "give two or more classes support vectors each"
        )
    pairs = list(combinations(range(len(labels)), 2))
    similar = _similarities(node, _vectors(node, sum(counts)))
    product = node.emit(relax.op.matmul(similar, node.expression(_of_pairs(node, counts))), "product")
    decisions = node.emit(
        relax.op.add(product, node.expression(_sized(node, "rho", len(pairs)))), "decisions"
    )
    label = best_label(node, _votes(node, decisions, len(labels)), labels)
    if node.attributes.get("prob_a"):
        return [label, transformed(node, _probabilities(node, decisions, len(labels)))]
    if len(labels) > 2:
        return [label, transformed(node, decisions)]
    if node.attributes.get("post_transform", "NONE") != "NONE":
        raise Unsupported("has a post_transform of one score, which is not supported: leave it out")
    other = node.emit(relax.op.negative(decisions), "other")
    return [label, relax.op.concat([other, decisions], 1)]


def _of_pairs(node: Node, counts: list[int]) -> Array:
    """What each support vector counts in each pair, [V, P]: those of both classes do.

    In the file a vector has a number for each other class.
    """
    classes, total = len(counts), sum(counts)
    given = _sized(node, "coefficients", (classes - 1) * total).reshape(classes - 1, total)
    ends = np.cumsum(counts)
    result = np.zeros((total, classes * (classes - 1) // 2), "float32")
    for place, (first, second) in enumerate(combinations(range(classes), 2)):
        for one, row in ((first, second - 1), (second, first)):
            own = slice(ends[one] - counts[one], ends[one])
            result[own, place] = given[row, own]
    return result


def _votes(node: Node, decisions: Any, classes: int) -> Any:
    """How many pairs decide for each class, [N, K]: for the first of two where more than 0."""
    pairs = list(combinations(range(classes), 2))
    change, without = np.zeros((len(pairs), classes), "float32"), np.zeros(classes, "float32")
    for place, (first, second) in enumerate(pairs):
        change[place, [first, second]] = 1, -1
        without[second] += 1
    is_first = node.emit(relax.op.greater(decisions, node.like(0.0, decisions)), "is_first")
    numbers = node.emit(relax.op.astype(is_first, "float32"), "is_first")
    moved = node.emit(relax.op.matmul(numbers, node.expression(change)), "moved")
    return node.emit(relax.op.add(moved, node.expression(without)), "votes")


def _probabilities(node: Node, decisions: Any, classes: int) -> Any:
    """Probabilities [N, K] of classes, by the sigmoid of each pair's decision: that of its first class."""
    pairs = list(combinations(range(classes), 2))
    steep, start = (node.expression(-_sized(node, name, len(pairs))) for name in ("prob_a", "prob_b"))
    line = node.emit(relax.op.add(node.emit(relax.op.multiply(decisions, steep), "steep"), start), "line")
    chance = node.emit(relax.op.sigmoid(line), "chance")
    first = node.emit(relax.op.clip(chance, _LEAST, 1 - _LEAST), "first")
    second = node.emit(relax.op.subtract(node.like(1.0, first), first), "second")
    both = node.emit(relax.op.concat([first, second], 1), "both")
    places = np.zeros((classes, classes), "int64")
    for place, (one, other) in enumerate(pairs):
        places[one, other], places[other, one] = place, len(pairs) + place
    matrix = node.emit(relax.op.take(both, node.expression(places), 1, mode="clip"), "pairs")
    found = node.emit(node.builder.call_te(coupled, matrix, primfunc_name_hint="coupled"), "coupled")
    return node.emit(relax.TupleGetItem(found, 0), "probabilities")


CONVERTERS: dict[str, Converter] = {
    "SVMClassifier": _classification,
    "SVMRegressor": _regression,
}
