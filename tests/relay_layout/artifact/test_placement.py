"""Weights that are equal are one array, as they are one place of an artifact."""

import numpy as np

from relay_layout.artifact.placement import shared


def test_equal_weights_are_one_array() -> None:
    first = np.arange(6, dtype="float32")
    weights = {
        "a": first,
        "b": first.copy(),
        "c": first + 1,
        "d": first.reshape(2, 3),
        "e": first.view("int32"),
    }
    found = shared(weights)
    assert found["b"] is first
    assert all(found[name] is weights[name] for name in "acde")


def test_order_and_names_stay() -> None:
    weights = {name: np.full(3, len(name), "int8") for name in ("z", "aa", "y")}
    assert list(shared(weights)) == ["z", "aa", "y"]
