"""Operators that draw random numbers: what these are like, and that a call gives those of the one before."""

from typing import Any

import numpy as np
import onnx
import pytest

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx

SHAPE = (90, 1000)
"""Whose means are within a hundredth of what they are of all numbers."""


def model_of(graph: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> drawn {graph}')


def drawn(graph: str, data: np.ndarray) -> dict[str, Any]:
    """What two calls give, which is the same."""
    session = relay_layout.compile(model_of(graph), shipped_records=False).session()
    first, second = (session.run({"x": data}) for _ in range(2))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    return first


@pytest.mark.parametrize("mean", [0.0, -3.0])
def test_normal_numbers(mean: float) -> None:
    nodes = f"y = RandomNormalLike <mean={mean}, scale=2.0> (x)"
    numbers = drawn(f"(float[N,M] x) => (float[N,M] y) {{ {nodes} }}", np.zeros(SHAPE, "float32"))["y"]
    assert numbers.shape == SHAPE
    away = (numbers.astype("float64") - mean) / 2
    assert abs(away.mean()) < 0.02 and abs(away.std() - 1) < 0.02
    # Of numbers around 0 with the deviation 1 as many are within 1 and within 2.
    assert abs((abs(away) < 1).mean() - 0.6827) < 0.01 and abs((abs(away) < 2).mean() - 0.9545) < 0.01


def test_even_numbers() -> None:
    nodes = "y = RandomUniformLike <low=-1.0, high=3.0> (x)"
    numbers = drawn(f"(float[N,M] x) => (float[N,M] y) {{ {nodes} }}", np.zeros(SHAPE, "float32"))["y"]
    assert numbers.min() >= -1 and numbers.max() < 3
    assert abs(numbers.mean() - 1) < 0.02 and abs(numbers.std() - 4 / np.sqrt(12)) < 0.02


@pytest.mark.parametrize("seed", ["", "<seed=5.0>"])
def test_nodes_draw_numbers_of_their_own(seed: str) -> None:
    nodes = f"y = RandomNormalLike {seed} (x)  z = RandomNormalLike {seed} (x)"
    found = drawn(f"(float[N,M] x) => (float y, float z) {{ {nodes} }}", np.zeros(SHAPE, "float32"))
    assert abs(np.corrcoef(found["y"].ravel(), found["z"].ravel())[0, 1]) < 0.02


def test_shapes_and_types() -> None:
    found = drawn(
        "(double[2] x) => (float a, double b, double c, float d) {"
        " a = RandomNormal <shape=[2, 3]> ()  b = RandomUniform <dtype=11, shape=[4]> ()"
        " c = RandomNormalLike (x)  d = RandomUniformLike <dtype=1> (x) }",
        np.zeros(2),
    )
    kinds = {name: (value.shape, str(value.dtype)) for name, value in found.items()}
    assert kinds == {
        "a": ((2, 3), "float32"),
        "b": ((4,), "float64"),
        "c": ((2,), "float64"),
        "d": ((2,), "float32"),
    }


def test_places_are_drawn_as_often_as_they_are_likely() -> None:
    likely = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.0, 0.0, 0.3]], "float32")
    with np.errstate(divide="ignore"):
        data = np.log(likely)
    graph = "(float[N,4] x) => (int64 y) { y = Multinomial <sample_size=40000, dtype=7> (x) }"
    places = drawn(graph, data)["y"]
    assert places.shape == (2, 40000) and places.dtype == "int64"
    found = [np.bincount(row, minlength=4) / 40000 for row in places]
    np.testing.assert_allclose(found, likely, atol=0.01)
    assert not found[1][1] and not found[1][2]


def test_some_hold_as_often_as_they_are_likely() -> None:
    found = drawn("(float[N,M] x) => (float y) { y = Bernoulli (x) }", np.full(SHAPE, 0.25, "float32"))["y"]
    assert set(np.unique(found)) == {0.0, 1.0}
    assert abs(found.mean() - 0.25) < 0.01


def test_rows_of_what_is_likely_are_a_matrix() -> None:
    with pytest.raises(ModelError, match=r"draws 1 of each row of \[4\], which should be \[N,C\]"):
        from_onnx(model_of("(float[4] x) => (int32 y) { y = Multinomial (x) }"))
