"""Forests of decision trees, beside ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx
from tests.relay_layout.frontend.onnx.test_counted import check
from tests.relay_layout.frontend.onnx.test_features import model_of, rows

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
