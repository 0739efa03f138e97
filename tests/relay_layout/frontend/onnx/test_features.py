"""Operators of ai.onnx.ml on rows of features, beside ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx
from tests.relay_layout.frontend.onnx.test_counted import check

RANDOM = np.random.default_rng(8)
NAN = float("nan")


def model_of(
    operator: str, shapes: list[list[Any]], dtypes: list[int], outputs: int = 1, **attributes: Any
) -> onnx.ModelProto:
    """One node of inputs x0, x1, ... and outputs y0, y1, ..."""
    names = [f"x{place}" for place in range(len(shapes))]
    results = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(operator, names, results, domain="ai.onnx.ml", **attributes)
    inputs = [
        helper.make_tensor_value_info(name, dtype, shape)
        for name, dtype, shape in zip(names, dtypes, shapes, strict=True)
    ]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info(n) for n in results])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def rows(*shape: int) -> np.ndarray:
    """Numbers whose sums are exact."""
    return np.asarray(np.round(8 * RANDOM.standard_normal(shape)) / 8, "float32")


COEFFICIENTS = [0.5, -1.0, 0.25, 1.5, 0.75, -0.5, -1.25, 2.0, 0.125]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "binarized": ("Binarizer", {"threshold": 0.25}),
    "scaled": ("Scaler", {"offset": [0.5, 1.0, -1.0], "scale": [2.0, 0.5, 3.0]}),
    "scaled_alike": ("Scaler", {"offset": [0.5], "scale": [2.0]}),
    "norm_of_sizes": ("Normalizer", {"norm": "L1"}),
    "norm_of_squares": ("Normalizer", {"norm": "L2"}),
    "greatest": ("Normalizer", {"norm": "MAX"}),
    "imputed": ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": NAN}),
    "imputed_zeros": ("Imputer", {"imputed_value_floats": [7.0], "replaced_value_float": 0.0}),
    "regression": (
        "LinearRegressor",
        {"targets": 3, "coefficients": COEFFICIENTS, "intercepts": [1.0, 0.0, -1.0]},
    ),
    "regression_of_one": ("LinearRegressor", {"coefficients": COEFFICIENTS[:3]}),
    "one_hot": ("OneHotEncoder", {"cats_int64s": [0, 1, 2]}),
}


@pytest.mark.parametrize("case", CASES)
def test_features(case: str, tmp_path: Path) -> None:
    operator, attributes = CASES[case]
    data = [rows(count, 3) for count in (1, 5)]
    data[1][2, 1] = np.nan if case == "imputed" else 0.0
    data[1][3] = 0.0
    check(model_of(operator, [["N", 3]], [1], **attributes), [{"x0": each} for each in data], tmp_path)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_linear_classes(classes: int, transform: str, tmp_path: Path) -> None:
    if classes == 1 and transform == "SOFTMAX":
        pytest.skip("one score has no softmax")
    model = model_of(
        "LinearClassifier",
        [["N", 3]],
        [1],
        2,
        coefficients=COEFFICIENTS[: 3 * classes],
        intercepts=[0.25, -0.25, 0.5][:classes],
        classlabels_ints=[10, 20, 30][: max(2, classes)],
        post_transform=transform,
    )
    check(model, [{"x0": rows(9, 3)}], tmp_path)


def test_elements_of_rows(tmp_path: Path) -> None:
    model = model_of("ArrayFeatureExtractor", [["N", 5], [3]], [1, 7])
    feeds = {"x0": rows(4, 5), "x1": np.array([4, 0, 2])}
    check(model, [feeds], tmp_path)


def test_features_of_several_inputs(tmp_path: Path) -> None:
    model = model_of("FeatureVectorizer", [["N", 2], ["N", 3]], [1, 1], inputdimensions=[2, 3])
    check(model, [{"x0": rows(4, 2), "x1": rows(4, 3)}], tmp_path)


def test_labels_that_are_texts_are_refused() -> None:
    given = {"coefficients": COEFFICIENTS[:6], "intercepts": [0.0, 0.0], "classlabels_strings": ["a", "b"]}
    model = model_of("LinearClassifier", [["N", 3]], [1], 2, **given)
    with pytest.raises(ModelError, match="train the model with numbers for them"):
        from_onnx(model)
