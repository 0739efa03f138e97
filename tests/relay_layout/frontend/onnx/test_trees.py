"""Forests of decision trees, beside ONNX Runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx
from tests.relay_layout.frontend.onnx.test_counted import check
from tests.relay_layout.frontend.onnx.test_features import NAN, model_of, rows

# Two trees: one of two levels, one that is a leaf but for a single comparison.
MODES = ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"]
NODES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 0, 2, 0, 0, 1, 0, 0],
    "nodes_values": [0.25, 0.0, -0.5, 0.0, 0.0, 0.1, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
}
LEAVES = {"treeids": [0, 0, 0, 1, 1], "nodeids": [1, 3, 4, 1, 2]}


def weights(kind: str, ids: list[int], numbers: list[float]) -> dict[str, Any]:
    found = {f"{kind}_{name}": numbers_of for name, numbers_of in LEAVES.items()}
    return found | {f"{kind}_ids": ids, f"{kind}_weights": numbers}


NUMBERS = [0.5, -1.0, 2.0, 0.25, -0.75]


def regressor(modes: list[str] | None = None, **attributes: Any) -> Any:
    given = NODES | {"nodes_modes": modes or MODES} | weights("target", [0] * 5, NUMBERS) | attributes
    return model_of("TreeEnsembleRegressor", [["N", 3]], [1], n_targets=1, **given)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_what_trees_give_together(aggregate: str, tmp_path: Path) -> None:
    model = regressor(aggregate_function=aggregate, base_values=[0.125])
    check(model, [{"x0": rows(count, 3)} for count in (1, 40)], tmp_path)


@pytest.mark.parametrize("mode", ["BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
def test_comparisons(mode: str, tmp_path: Path) -> None:
    modes = [mode if each != "LEAF" and place else each for place, each in enumerate(MODES)]
    data = rows(40, 3)
    data[::2] = np.resize(np.array([0.25, 0.1, -0.5], "float32"), (20, 3))
    check(regressor(modes), [{"x0": data}], tmp_path)


def test_missing_numbers_go_their_own_way(tmp_path: Path) -> None:
    data = rows(40, 3)
    data[RANDOM_PLACES] = np.nan
    check(regressor(nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 1, 0, 0]), [{"x0": data}], tmp_path)


RANDOM_PLACES = np.random.default_rng(3).random((40, 3)) < 0.4


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_three_classes(transform: str, tmp_path: Path) -> None:
    given = NODES | {"nodes_modes": MODES} | weights("class", [0, 1, 2, 1, 2], NUMBERS)
    labels = {"classlabels_int64s": [10, 20, 30], "post_transform": transform}
    model = model_of("TreeEnsembleClassifier", [["N", 3]], [1], 2, **given, **labels)
    check(model, [{"x0": rows(40, 3)}], tmp_path)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("numbers", [NUMBERS, [0.1, 0.3, 0.2, 0.1, 0.4]], ids=["any", "probabilities"])
def test_two_classes_by_one_score(numbers: list[float], transform: str, tmp_path: Path) -> None:
    given = NODES | {"nodes_modes": MODES} | weights("class", [0] * 5, numbers)
    labels = {"classlabels_int64s": [10, 20], "post_transform": transform}
    model = model_of("TreeEnsembleClassifier", [["N", 3]], [1], 2, **given, **labels)
    check(model, [{"x0": rows(40, 3)}], tmp_path)


@pytest.mark.parametrize(
    "attributes",
    [
        {"nodes_falsenodeids": [9, 0, 4, 0, 0, 2, 0, 0]},
        {"nodes_falsenodeids": [2, 0, 3, 0, 0, 2, 0, 0]},
        {
            "nodes_modes": [*MODES[:4], "BRANCH_LEQ", *MODES[5:]],
            "nodes_truenodeids": [1, 0, 3, 0, 3, 1, 0, 0],
            "nodes_falsenodeids": [2, 0, 4, 0, 2, 2, 0, 0],
        },
    ],
    ids=["not there", "two first ones", "a circle"],
)
def test_nodes_that_make_no_trees_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="has nodes that make no trees"):
        from_onnx(regressor(**attributes))


# The first of the trees above, one that asks for members, one that is a leaf, and the last of those above.
LEQ, MEMBER = 0, 6
ENTRIES: dict[str, Any] = {
    "nodes_modes": [LEQ, LEQ, MEMBER, LEQ, LEQ],
    "nodes_featureids": [0, 2, 1, 0, 1],
    "nodes_splits": [0.25, -0.5, 0.0, 0.0, 0.1],
    "nodes_truenodeids": [0, 1, 3, 5, 3],
    "nodes_trueleafs": [1, 1, 1, 1, 1],
    "nodes_falsenodeids": [1, 2, 4, 5, 4],
    "nodes_falseleafs": [0, 1, 1, 1, 1],
    "tree_roots": [0, 2, 3, 4],
    "leaf_weights": [0.5, -1.0, 2.0, 0.25, -0.75, 1.5],
    "membership_values": [1.0, 4.0, 2.0, NAN],
}


def ensemble(dtype: int = 1, features: int = 3, **attributes: Any) -> Any:
    given = ENTRIES | {"leaf_targetids": [0] * len(ENTRIES["leaf_weights"]), "n_targets": 1} | attributes
    for name in ("nodes_modes", "nodes_splits", "leaf_weights", "membership_values"):
        kind = 2 if name == "nodes_modes" else dtype
        given[name] = helper.make_tensor(name, kind, [len(given[name])], given[name])
    model = model_of("TreeEnsemble", [["N", features]], [dtype], **given)
    model.opset_import[1].version = 5
    return model


def features(count: int) -> np.ndarray:
    """Rows in which some of the second features are members, and some no numbers."""
    data = np.random.default_rng(2).uniform(-1, 1, (count, 3))
    data[:, 1] = np.arange(count) % 6
    data[3::7, 1] = np.nan
    return data


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"aggregate_function": 0},
        {"aggregate_function": 2, "nodes_missing_value_tracks_true": [0, 0, 1, 0, 1]},
        {"aggregate_function": 3},
        {"leaf_targetids": [0, 2, 1, 0, 1, 2], "n_targets": 3},
    ],
    ids=["sum", "average", "missing", "most", "three targets"],
)
@pytest.mark.parametrize("dtype", [1, 11], ids=["float", "double"])
def test_trees_of_entries(attributes: dict[str, Any], dtype: int, tmp_path: Path) -> None:
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    feeds = [{"x0": features(count).astype(kind)} for count in (1, 60)]
    check(ensemble(dtype, **attributes), feeds, tmp_path)


@pytest.mark.parametrize(
    ("number", "transform"),
    [(1, lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)), (2, lambda x: 1 / (1 + np.exp(-x)))],
    ids=["softmax", "logistic"],
)
def test_numbers_of_transforms(number: int, transform: Callable[[Any], Any], tmp_path: Path) -> None:
    """As ONNX numbers them; ONNX Runtime exchanges these two."""
    targets: dict[str, Any] = {"leaf_targetids": [0, 2, 1, 0, 1, 2], "n_targets": 3}
    data = features(12).astype("float32")
    (plain,) = check(ensemble(**targets), [{"x0": data}], tmp_path).run({"x0": data}).values()
    relay_layout.compile(ensemble(**targets, post_transform=number), shipped_records=False).save(
        tmp_path / "other.rla"
    )
    (found,) = relay_layout.load(tmp_path / "other.rla").run({"x0": data}).values()
    np.testing.assert_allclose(found, transform(plain), rtol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"nodes_truenodeids": [0, 1, 3, 6, 3]}, "has nodes that make no trees"),
        ({"nodes_falsenodeids": [0, 2, 4, 5, 4]}, "has nodes that make no trees"),
        ({"tree_roots": [0, 9]}, "has nodes that make no trees"),
        ({"leaf_targetids": [0, 0, 0, 0, 0, 1]}, "has modes of nodes, or targets of leaves, that are not"),
        ({"membership_values": [0.5, NAN, 1.0]}, "has 2 sets of membership_values for 1 nodes"),
        ({"post_transform": 4}, "has the post_transform 'PROBIT', which is not supported"),
        ({"aggregate_function": 7}, "has the aggregate_function '7' of 1 results, which is not supported"),
        ({"features": 2}, "compares feature 2 of 2"),
    ],
    ids=["leaf", "circle", "root", "target", "members", "transform", "aggregate", "features"],
)
def test_entries_that_make_no_trees_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        from_onnx(ensemble(**attributes))
