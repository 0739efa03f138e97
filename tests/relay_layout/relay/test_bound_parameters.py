"""Digests of the parameters that became part of a network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from relay_layout.artifact import Build, Manifest, Producer
from relay_layout.errors import InputError
from relay_layout.relay.bound_parameters import BoundParameter, parameters_of, with_parameters

MANIFEST = Manifest(
    producer=Producer("1", "1"),
    inputs=(),
    outputs=(),
    builds=(
        Build(
            "x86-64-v3", {"kind": "llvm", "mtriple": "x86_64", "mcpu": "", "features": []}, report={"a": 1}
        ),
    ),
)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[0.5, np.nan], [-0.0, 3.0]], "float32"),
        np.float32(2.5).reshape(()),
        np.zeros((0, 3), "int8"),
        np.ones(2, ml_dtypes.bfloat16),
        np.arange(6, dtype="float32").reshape(2, 3).T,
    ],
)
def test_the_same_numbers_are_known_again(array: np.ndarray) -> None:
    held = parameters_of(with_parameters(MANIFEST, {"w": array}))["w"]
    assert held.matches(array)
    assert held.matches(array.copy(order="C"))
    assert not held.matches(np.full(array.shape, 7, array.dtype)) or not array.size
    assert not held.matches(array.reshape(1, *array.shape))


def test_numbers_are_converted_first() -> None:
    held = BoundParameter.of(np.array([1.0, 2.0], "float32"))
    assert held.matches(np.array([1.0, 2.0])) and held.matches(np.array([1, 2]))
    assert not held.matches(np.array([1, 3]))


def test_the_report_keeps_what_it_had() -> None:
    noted = with_parameters(MANIFEST, {"w": np.zeros(2, "float32")})
    assert noted.builds[0].report["a"] == 1
    assert with_parameters(MANIFEST, {}) == MANIFEST
    assert parameters_of(MANIFEST) == {}


@pytest.mark.parametrize(
    ("field", "message"),
    [([], r"report\.parameters"), ({"w": {"dtype": "int8", "shape": []}}, "the field 'sha256' is missing")],
)
def test_another_form_is_refused(field: Any, message: str) -> None:
    (build,) = MANIFEST.builds
    manifest = replace(MANIFEST, builds=(replace(build, report={"parameters": field}),))
    with pytest.raises(InputError, match=message):
        parameters_of(manifest)
