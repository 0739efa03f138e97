"""Operators of ai.onnx.ml on rows of features [N, C]: what prepares them, and linear models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import product
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of, written


def rows(node: Node, dtype: str = "float32") -> Any:
    """The first input as rows of features [N, C]; a vector is one row."""
    shape = shape_of(node.input(0))
    if len(shape) not in (1, 2) or not isinstance(shape[-1], int):
        raise Unsupported(f"reads features of {written(shape)}, which should be [N,C] with a known C")
    data = node.cast(node.input(0), dtype)
    return node.emit(relax.op.expand_dims(data, 0) if len(shape) == 1 else data, "rows")


def transformed(node: Node, scores: Any) -> Any:
    """Scores [N, E] after the node's ``post_transform``."""
    kind = node.attributes.get("post_transform", "NONE")
    if kind not in _TRANSFORMS:
        raise Unsupported(
            f"has the post_transform '{kind}', which is not supported; {', '.join(_TRANSFORMS)} are"
        )
    return _TRANSFORMS[kind](scores)


_TRANSFORMS = {
    "NONE": lambda scores: scores,
    "LOGISTIC": relax.op.sigmoid,
    "SOFTMAX": lambda scores: relax.op.nn.softmax(scores, axis=1),
}


def class_labels(node: Node, name: str) -> Array:
    """The numbers of the classes, int64; of texts their places, where no one reads which class it is."""
    labels = node.attributes.get(name, ())
    texts = node.attributes.get("classlabels_strings", ())
    if texts and not node.is_read(0):
        return np.arange(len(texts))
    if not labels:
        raise Unsupported(
            f"has no {name}: labels that are texts are not supported; train the model with numbers for them, "
            "or take its scores alone (onnx.utils.extract_model)"
        )
    return np.asarray(labels, "int64")


def best_label(node: Node, scores: Any, labels: Array) -> Any:
    """The label of the greatest of each row's scores [N, E], the first of equal ones: int64 [N]."""
    places = node.emit(relax.op.argmax(scores, 1), "best")
    return relax.op.take(node.expression(labels), places, 0, mode="clip")


def of_two_classes(
    node: Node, score: Any, labels: Array, threshold: float, *, complements: bool
) -> list[Value]:
    """Labels [N] and scores [N, 2] of two classes by one score [N, 1]: the second class where it is greater.

    The first class has what is left of 1 where the score ``complements``, else its negative; after LOGISTIC
    both are probabilities in any case.
    """
    kind = node.attributes.get("post_transform", "NONE")
    if kind not in ("NONE", "LOGISTIC"):
        raise Unsupported(f"has the post_transform '{kind}' of one score, which is not supported")
    is_second = node.emit(relax.op.greater(score, node.like(threshold, score)), "is_second")
    is_second = node.emit(relax.op.squeeze(is_second, [1]), "is_second")
    label = relax.op.where(is_second, *(node.expression(labels[place : place + 1]) for place in (1, 0)))
    if complements and kind == "NONE":
        other = relax.op.subtract(node.like(1.0, score), score)
    else:
        other = relax.op.negative(score)
    both = node.emit(relax.op.concat([node.emit(other, "other"), score], 1), "scores")
    return [label, transformed(node, both)]


def _numbers(node: Node, name: str, count: int) -> Any:
    """An attribute of one number, or of one for each feature."""
    numbers = np.asarray(node.attributes.get(name, ()), "float32")
    if len(numbers) not in (1, count):
        raise Unsupported(f"has {len(numbers)} numbers in {name} for {count} features")
    return node.expression(numbers)


def _extracted(node: Node) -> Value:
    """Elements of the last dimension, which a list names; of a vector as one row."""
    shape, places = shape_of(node.input(0)), node.input(1)
    flat = node.expression(node.reshaped(places, [product(shape_of(places))]))
    taken = relax.op.take(node.tensor(0), node.emit(flat, "places"), len(shape) - 1, mode="clip")
    return relax.op.expand_dims(node.emit(taken, "taken"), 0) if len(shape) == 1 else taken


def _binarized(node: Node) -> Value:
    data = node.tensor(0)
    above = node.emit(relax.op.greater(data, node.like(node.attributes.get("threshold", 0.0), data)), "above")
    return relax.op.astype(above, dtype_of(data))


def _imputed(node: Node) -> Value:
    """Another number in place of one that stands for none."""
    data = node.tensor(0)
    is_real = dtype_of(data).startswith("float")
    kind = "float" if is_real else "int64"
    given = np.asarray(node.attributes.get(f"imputed_value_{kind}s", ()), dtype_of(data))
    count = shape_of(data)[-1]
    if len(given) != 1 and len(given) != count:
        raise Unsupported(f"has {len(given)} numbers in imputed_value_{kind}s for {written(shape_of(data))}")
    replaced = node.attributes.get(f"replaced_value_{kind}", 0)
    if is_real and np.isnan(replaced):
        missing = relax.op.isnan(data)
    else:
        missing = relax.op.equal(data, node.like(replaced, data))
    return relax.op.where(node.emit(missing, "missing"), node.expression(given), data)


def _scaled(node: Node) -> Value:
    """The features less ``offset``, times ``scale``."""
    data = rows(node)
    count = shape_of(data)[1]
    moved = node.emit(relax.op.subtract(data, _numbers(node, "offset", count)), "moved")
    return relax.op.multiply(moved, _numbers(node, "scale", count))


def _normalized(node: Node) -> Value:
    """Each row over its norm; a row whose norm is 0 stays."""
    data, kind = rows(node), node.attributes.get("norm", "MAX")
    if kind == "L1":
        norm = relax.op.sum(node.emit(relax.op.abs(data), "sizes"), 1, keepdims=True)
    elif kind == "L2":
        squares = node.emit(relax.op.multiply(data, data), "squares")
        norm = relax.op.sqrt(node.emit(relax.op.sum(squares, 1, keepdims=True), "square"))
    elif kind == "MAX":
        norm = relax.op.max(data, 1, keepdims=True)
    else:
        raise Unsupported(f"has the norm '{kind}', which is not supported; MAX, L1 and L2 are")
    norm = node.emit(norm, "norm")
    is_nothing = node.emit(relax.op.equal(norm, node.like(0.0, norm)), "nothing")
    return relax.op.divide(data, node.emit(relax.op.where(is_nothing, node.like(1.0, norm), norm), "divisor"))


def _joined(node: Node) -> Value:
    """The features of all inputs, in one row."""
    parts = [node.emit(node.cast(value, "float32"), "features") for value in node.inputs]
    return relax.op.concat(parts, 1)


def _one_hot(node: Node) -> Value:
    """For each of the listed numbers a feature that tells whether an element, as an integer, is it."""
    listed = np.asarray(node.attributes.get("cats_int64s", ()), "int64")
    if not listed.size:
        raise Unsupported("has categories that are texts, which is not supported: give it numbers")
    data = node.emit(node.cast(node.input(0), "int64"), "integers")
    data = node.emit(relax.op.expand_dims(data, len(shape_of(data))), "integers")
    return relax.op.astype(node.emit(relax.op.equal(data, node.expression(listed)), "same"), "float32")


def _linear(node: Node, count: int, intercepts: Sequence[float]) -> Any:
    """The products of rows of features with ``count`` rows of coefficients, and intercepts: [N, count]."""
    data = rows(node)
    matrix = np.asarray(node.attributes.get("coefficients", ()), "float32")
    features = shape_of(data)[1]
    if matrix.size != count * features or len(intercepts) not in (0, count):
        raise Unsupported(
            f"has {matrix.size} coefficients and {len(intercepts)} intercepts for {count} results of "
            f"{features} features"
        )
    matrix = np.ascontiguousarray(matrix.reshape(count, features).T)
    result = node.emit(relax.op.matmul(data, node.expression(matrix)), "product")
    if not any(intercepts):
        return result
    return node.emit(relax.op.add(result, node.expression(np.asarray(intercepts, "float32"))), "scores")


def _linear_regression(node: Node) -> Value:
    count = node.attributes.get("targets", 1)
    return transformed(node, _linear(node, count, node.attributes.get("intercepts", ())))


def _linear_classification(node: Node) -> Value:
    """The label of the greatest score, and the scores."""
    labels = class_labels(node, "classlabels_ints")
    intercepts = node.attributes.get("intercepts", ())
    if len(labels) == 2 and len(intercepts) == 1:
        return of_two_classes(node, _linear(node, 1, intercepts), labels, 0.0, complements=True)
    if len(labels) < 2 or len(intercepts) != len(labels):
        raise Unsupported(
            f"has {len(labels)} labels and {len(intercepts)} intercepts, which is not supported: "
            "give it coefficients and an intercept for each of two or more classes"
        )
    scores = _linear(node, len(labels), intercepts)
    return [best_label(node, scores, labels), transformed(node, scores)]


CONVERTERS: dict[str, Converter] = {
    "ArrayFeatureExtractor": _extracted,
    "Binarizer": _binarized,
    "FeatureVectorizer": _joined,
    "Imputer": _imputed,
    "LinearClassifier": _linear_classification,
    "LinearRegressor": _linear_regression,
    "Normalizer": _normalized,
    "OneHotEncoder": _one_hot,
    "Scaler": _scaled,
}
