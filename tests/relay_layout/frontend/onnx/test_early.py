"""Operators of ONNX's first opsets, by their definitions: ONNX Runtime has few of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("float32")
EACH = np.random.default_rng(1).uniform(0.5, 1, (3, 4, 5)).astype("float32")


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, "float32")


def model(
    operator: str, attributes: dict[str, Any], constants: list[np.ndarray], opset: int, outputs: int = 1
) -> Any:
    names = [f"c{place}" for place in range(len(constants))]
    results = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(operator, ["x", *names], results, **attributes)
    graph = helper.make_graph(
        [node],
        "early",
        [helper.make_tensor_value_info("x", 1, X.shape)],
        [helper.make_tensor_value_info(name, 6 if operator == "Cast" else 1, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in zip(names, constants, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


CASES: dict[str, tuple[str, dict[str, Any], list[np.ndarray], int, list[np.ndarray]]] = {
    "affine": ("Affine", {"alpha": 2.0, "beta": 1.0}, [], 7, [2 * X + 1]),
    "crop": ("Crop", {"border": [1, 2, 3, 1]}, [], 7, [X[:, :, 2:3, 1:2]]),
    "crop to a size": ("Crop", {"border": [1, 2, 0, 0], "scale": [2, 3]}, [], 7, [X[:, :, 2:4, 1:4]]),
    "scaled image": (
        "ImageScaler",
        {"scale": 2.0, "bias": [0.5, 1.0, 2.0]},
        [],
        7,
        [2 * X + floats(0.5, 1, 2).reshape(3, 1, 1)],
    ),
    "softplus": ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}, [], 7, [2 * np.log1p(np.exp(0.5 * X))]),
    "tanh": ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}, [], 7, [2 * np.tanh(0.5 * X)]),
    "scale": ("Scale", {"scale": 2.5}, [], 7, [2.5 * X]),
    "slice": (
        "DynamicSlice",
        {},
        [np.array([1, -2]), np.array([2**31, -1]), np.array([1, 2])],
        9,
        [X[:, 1:, -2:-1]],
    ),
    "filled": (
        "ConstantFill",
        {"value": 2.0, "dtype": 7, "extra_shape": [2]},
        [],
        7,
        [np.full((*X.shape, 2), 2, "int64")],
    ),
    "thresholded relu": ("ThresholdedRelu", {"alpha": 0.5}, [], 7, [np.where(X > 0.5, X, 0)]),
    "upsample": (
        "Upsample",
        {"height_scale": 2.0, "width_scale": 3.0, "mode": "nearest"},
        [],
        1,
        [X.repeat(2, 2).repeat(3, 3)],
    ),
    "split": ("Split", {"axis": 1}, [floats(1, 2)], 1, [X[:, :1], X[:, 1:]]),
    "cast": ("Cast", {"to": "INT32"}, [], 1, [X.astype("int32")]),
    "tile": ("Tile", {}, [floats(2), floats(1)], 1, [np.tile(X, (1, 2, 1, 1))]),
    "pad": (
        "Pad",
        {"paddings": [0, 0, 1, 0, 0, 0, 2, 1], "mode": "constant", "value": 1.0},
        [],
        1,
        [np.pad(X, ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=1)],
    ),
    "batch norm": (
        "BatchNormalization",
        {"spatial": 0, "epsilon": 0.001},
        [EACH, -EACH, EACH + 1, EACH + 2],
        7,
        [(X - EACH - 1) / np.sqrt(EACH + 2 + 0.001) * EACH - EACH],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers(case: str, tmp_path: Path) -> None:
    operator, attributes, constants, opset, wanted = CASES[case]
    relay_layout.compile(model(operator, attributes, constants, opset, len(wanted))).save(tmp_path / "y.rla")
    found = relay_layout.load(tmp_path / "y.rla").run({"x": X})
    for have, due in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(have, due, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "attributes", "told"),
    [
        ("Crop", {"border": [1, 2, 1, 2]}, "too small"),
        ("Crop", {"border": [1, 2]}, "by the border"),
        ("ImageScaler", {"bias": [1.0]}, "1 biases"),
    ],
)
def test_what_does_not_fit_is_refused(operator: str, attributes: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        from_onnx(model(operator, attributes, [], 7))


def test_a_negative_extent_of_a_constant_is_refused() -> None:
    damaged = model("Affine", {}, [EACH], 7)
    damaged.graph.initializer[0].dims[:] = [-60]
    with pytest.raises(ModelError, match="damaged: it has the shape"):
        from_onnx(damaged)
