"""Forests of decision trees, of ai.onnx.ml: numbers of results are in the leaves that rows come to.

Letters of shapes: N rows of C features, T trees, M nodes of all trees together, K results.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from tvm import relax, te, tirx

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.features import (
    best_label,
    class_labels,
    of_two_classes,
    rows,
    transformed,
)
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of
from topi_ext.compute.trees import LEAF, Nodes, leaves

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": operator.le,
    "BRANCH_LT": operator.lt,
    "BRANCH_GTE": operator.ge,
    "BRANCH_GT": operator.gt,
    "BRANCH_EQ": tirx.EQ,
    "BRANCH_NEQ": tirx.NE,
}

_LEAF = "LEAF"

_NO_TREES = "has nodes that make no trees: some are not there, or follow themselves or several others"


@dataclass(frozen=True)
class _Forest:
    """Nodes of all trees; a leaf is its own successor.

    ``successors`` [M, 2] are for comparisons that do not hold, and that do; ``features``, ``thresholds``,
    ``modes`` and ``missing_holds`` [M] are what a node compares; ``roots`` [T] are nodes. ``weights`` [M, K]
    are what leaves give, where ``is_given`` [M, K].
    """

    roots: Array
    features: Array
    thresholds: Array
    modes: Array
    missing_holds: Array
    successors: Array
    weights: Array
    is_given: Array


def _column(node: Node, name: str, dtype: str) -> Array:
    """An attribute of a number for each node, which may be a tensor."""
    found = node.attributes.get(f"{name}_as_tensor", node.attributes.get(name, ()))
    return np.asarray(found).astype(dtype).reshape(-1)


def _forest(node: Node, kind: str, count: int, dtype: str) -> _Forest:
    """Trees of nodes and leaves that are numbered together; ``kind`` is what attributes of weights are named
    after, which are for ``count`` results.
    """
    trees, numbers = (_column(node, f"nodes_{name}ids", "int64") for name in ("tree", "node"))
    modes = np.asarray(node.attributes.get("nodes_modes", ()), "object")
    if unknown := set(modes) - {_LEAF, *_COMPARISONS}:
        raise Unsupported(f"has nodes of the mode '{min(unknown)}', which is not supported")
    places = {pair: place for place, pair in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True))}
    is_leaf, own = modes == _LEAF, np.arange(len(trees))
    ways = [_column(node, f"nodes_{way}nodeids", "int64").tolist() for way in ("false", "true")]
    successors = np.stack([own, own], 1)
    try:
        for place in own[~is_leaf].tolist():
            successors[place] = [places[int(trees[place]), way[place]] for way in ways]
        columns = [_column(node, f"nodes_{name}", dtype) for name in ("featureids", "values")]
        features, thresholds = (np.where(is_leaf, 0, column) for column in columns)
    except (KeyError, IndexError, ValueError):
        raise Unsupported(_NO_TREES) from None
    missing = _column(node, "nodes_missing_value_tracks_true", "bool")
    roots = np.setdiff1d(own, successors[~is_leaf])
    if not np.array_equal(np.sort(trees[roots]), np.unique(trees)):
        raise Unsupported(_NO_TREES)
    weights, is_given = _weights(node, kind, places, count, dtype)
    return _Forest(
        roots,
        features.astype("int64"),
        thresholds.astype(dtype),
        modes,
        missing & ~is_leaf if len(missing) else np.zeros(len(own), "bool"),
        successors,
        weights,
        is_given,
    )


def _weights(
    node: Node, kind: str, places: dict[tuple[int, int], int], count: int, dtype: str
) -> tuple[Array, Array]:
    """What nodes give, and whether they do; ``places`` finds a node by its tree and its number."""
    trees, numbers, results = (
        _column(node, f"{kind}_{name}", "int64").tolist() for name in ("treeids", "nodeids", "ids")
    )
    table = np.zeros((len(places), count), dtype)
    is_given = np.zeros(table.shape, "bool")
    try:
        given = zip(trees, numbers, results, _column(node, f"{kind}_weights", dtype), strict=True)
        for tree, number, result, weight in given:
            table[places[tree, number], result] += weight
            is_given[places[tree, number], result] = True
    except (KeyError, IndexError, ValueError):
        raise Unsupported("has weights of leaves that are not there") from None
    return table, is_given


_ENTRY_MODES = (*_COMPARISONS, "BRANCH_MEMBER")


def _forest_of_entries(node: Node, dtype: str) -> _Forest:
    """Trees of nodes, and leaves that are numbered apart from them, as TreeEnsemble has them."""
    modes, features, missing, roots, targets = (
        _column(node, name, "int64")
        for name in (
            "nodes_modes",
            "nodes_featureids",
            "nodes_missing_value_tracks_true",
            "tree_roots",
            "leaf_targetids",
        )
    )
    thresholds, weights = (_column(node, name, dtype) for name in ("nodes_splits", "leaf_weights"))
    inner, leaves, count = len(modes), len(weights), int(node.attributes.get("n_targets", 1))
    missing = missing if len(missing) else np.zeros(inner, "int64")
    ways = []
    for way in ("false", "true"):
        places, ends = (
            _column(node, f"nodes_{way}nodeids", "int64"),
            _column(node, f"nodes_{way}leafs", "bool"),
        )
        if (
            len(places) != inner
            or len(ends) != inner
            or not _are_below(places, np.where(ends, leaves, inner))
        ):
            raise Unsupported(_NO_TREES)
        ways.append(places + inner * ends)
    if not len(features) == len(thresholds) == len(missing) == inner or not _are_below(roots, inner):
        raise Unsupported(_NO_TREES)
    if not _are_below(modes, len(_ENTRY_MODES)) or len(targets) != leaves or not _are_below(targets, count):
        raise Unsupported("has modes of nodes, or targets of leaves, that are not there")
    own = np.arange(inner, inner + leaves)
    table = np.zeros((inner + leaves, count), dtype)
    table[own, targets] = weights
    forest = _Forest(
        roots,
        np.concatenate([features, np.zeros(leaves, "int64")]),
        np.concatenate([thresholds, np.zeros(leaves, dtype)]),
        np.array([*(_ENTRY_MODES[mode] for mode in modes), *[_LEAF] * leaves], "object"),
        np.concatenate([missing.astype("bool"), np.zeros(leaves, "bool")]),
        np.concatenate([np.stack(ways, 1), np.stack([own, own], 1)]),
        table,
        table != 0,
    )
    return _without_members(forest, _column(node, "membership_values", dtype))


def _are_below(places: Array, end: Any) -> bool:
    return bool(((places >= 0) & (places < end)).all())


def _without_members(forest: _Forest, values: Array) -> _Forest:
    """The forest with a comparison with each member, one after another, where a node asks for any of them.

    ``values`` has the members for each such node, behind which there is a NaN.
    """
    asking = np.flatnonzero(forest.modes == "BRANCH_MEMBER")
    ends = np.flatnonzero(np.isnan(values))
    groups = [group[~np.isnan(group)] for group in np.split(values, ends + 1)]
    groups = groups if len(groups[-1]) else groups[:-1]
    if len(groups) != len(asking) or not all(map(len, groups)):
        raise Unsupported(f"has {len(groups)} sets of membership_values for {len(asking)} nodes")
    if not groups:
        return forest
    sizes = [len(group) - 1 for group in groups]
    rows = np.concatenate([np.arange(len(forest.modes)), np.repeat(asking, sizes)])
    columns = {
        field.name: getattr(forest, field.name)[rows] for field in fields(forest) if field.name != "roots"
    }
    first = len(forest.modes)
    for place, group in zip(asking, groups, strict=True):
        chain = np.array([place, *range(first, first + len(group) - 1)])
        columns["modes"][chain] = "BRANCH_EQ"
        columns["thresholds"][chain] = group
        columns["successors"][chain[:-1], 0] = chain[1:]
        first += len(group) - 1
    return _Forest(forest.roots, **columns)


def _depth(forest: _Forest) -> int:
    """How many comparisons lead from roots to the farthest leaf."""
    is_leaf = forest.modes == _LEAF
    level, depth = forest.roots[~is_leaf[forest.roots]], 0
    while level.size:
        if depth == len(is_leaf):
            raise Unsupported(_NO_TREES)
        level, depth = np.unique(forest.successors[level]), depth + 1
        level = level[~is_leaf[level]]
    return depth


def _leaves(node: Node, forest: _Forest, data: Any) -> Any:
    """The leaf that each row [N, C] comes to in each tree: places of nodes, [N, T]."""
    if forest.features.max(initial=0) >= shape_of(data)[1]:
        raise Unsupported(f"compares feature {forest.features.max()} of {shape_of(data)[1]}")
    modes = sorted(set(forest.modes) - {_LEAF}) or ["BRANCH_LEQ"]
    numbers = {mode: number for number, mode in enumerate(modes)} | {_LEAF: LEAF}
    kinds = np.array([numbers[mode] for mode in forest.modes]) + forest.missing_holds * len(modes)
    constants = [
        forest.roots.astype("int32"),
        forest.features.astype("int32"),
        forest.thresholds,
        kinds.astype("int32"),
        forest.successors.astype("int32"),
    ]

    depth = _depth(forest)

    def compute(data: te.Tensor, roots: te.Tensor, *columns: te.Tensor) -> te.Tensor:
        return leaves(data, roots, Nodes(*columns), [_COMPARISONS[mode] for mode in modes], depth)

    call = node.builder.call_te(compute, data, *map(node.expression, constants), primfunc_name_hint="leaves")
    return node.emit(call, "leaves")


def _of_nodes(node: Node, column: Array, places: Any) -> Any:
    return relax.op.take(node.expression(column), places, 0, mode="clip")


class _Totals(NamedTuple):
    """What the leaves of all trees give together, [N, K], and where they give it: None for everywhere."""

    numbers: Any
    given: Any | None


def _totals(node: Node, forest: _Forest) -> _Totals:
    """Totals of rows of the first input, computed in the type of the forest's thresholds."""
    dtype, count = str(forest.thresholds.dtype), forest.weights.shape[1]
    leaves = _leaves(node, forest, rows(node, dtype))
    found = node.emit(_of_nodes(node, forest.weights, leaves), "found")
    aggregate = node.attributes.get("aggregate_function", "SUM")
    if aggregate not in _AGGREGATES or (aggregate in ("MIN", "MAX") and count > 1):
        raise Unsupported(
            f"has the aggregate_function '{aggregate}' of {count} results, which is not supported"
        )
    total = node.emit(_AGGREGATES[aggregate](found, 1), "total")
    base = _column(node, "base_values", dtype)
    if len(base) not in (0, count):
        raise Unsupported(f"has {len(base)} base_values for {count} results")
    if base.any():
        total = node.emit(relax.op.add(total, node.expression(base)), "total")
    if count == 1 or forest.is_given[forest.modes == _LEAF].all():
        return _Totals(total, None)
    given = node.emit(_of_nodes(node, forest.is_given.astype("float32"), leaves), "given")
    given = node.emit(relax.op.max(given, 1), "given")
    return _Totals(total, node.emit(relax.op.astype(given, "bool"), "given"))


_AGGREGATES = {"SUM": relax.op.sum, "AVERAGE": relax.op.mean, "MIN": relax.op.min, "MAX": relax.op.max}


def _precision(node: Node) -> str:
    """The type in which trees are computed."""
    return "float64" if dtype_of(node.input(0)) == "float64" else "float32"


def _regression(node: Node) -> Value:
    forest = _forest(node, "target", node.attributes.get("n_targets", 1), _precision(node))
    return transformed(node, node.emit(_single(_totals(node, forest).numbers), "scores"))


def _ensemble(node: Node) -> Value:
    """A regression whose trees are of entries, and whose attributes are numbers in place of names."""
    given = {}
    for name, (default, names) in _NAMED.items():
        number = int(node.attributes.get(name, default))
        given[name] = names[number] if 0 <= number < len(names) else str(number)
    node = replace(node, attributes={**node.attributes, **given})
    total = _totals(node, _forest_of_entries(node, _precision(node))).numbers
    return node.cast(node.emit(transformed(node, total), "scores"), dtype_of(node.input(0)))


_NAMED = {
    "aggregate_function": (1, ("AVERAGE", "SUM", "MIN", "MAX")),
    "post_transform": (0, ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")),
}
"""Attributes of numbers: which it is where none is given, and what the numbers mean."""


def _single(total: Any) -> Any:
    return total if dtype_of(total) == "float32" else relax.op.astype(total, "float32")


def _classification(node: Node) -> Value:
    """Labels [N] and scores [N, E]; one score alone decides between two classes.

    It is a probability where no leaf gives less than 0.
    """
    labels = class_labels(node, "classlabels_int64s")
    given = set(node.attributes.get("class_ids", ()))
    if len(labels) > 2 or given == {0, 1}:
        total, given_here = _totals(node, _forest(node, "class", len(labels), _precision(node)))
        best = total
        if given_here is not None:
            # A class of which no tree says anything is not the best, though others are less than 0.
            best = node.emit(relax.op.where(given_here, total, node.like(float("-inf"), total)), "best")
        return [best_label(node, best, labels), transformed(node, node.emit(_single(total), "scores"))]
    if len(labels) != 2 or given != {0}:
        raise Unsupported(
            f"gives scores for the classes {sorted(given)} of {len(labels)}, which is not supported: "
            "of two classes give it one score, for the class 0, or both"
        )
    is_probability = _column(node, "class_weights", "float32").min(initial=0) >= 0
    forest = _forest(node, "class", 1, _precision(node))
    score = node.emit(_single(_totals(node, forest).numbers), "score")
    threshold = 0.5 if is_probability else 0.0
    return of_two_classes(node, score, labels, threshold, complements=is_probability)


CONVERTERS: dict[str, Converter] = {
    "TreeEnsemble": _ensemble,
    "TreeEnsembleClassifier": _classification,
    "TreeEnsembleRegressor": _regression,
}
