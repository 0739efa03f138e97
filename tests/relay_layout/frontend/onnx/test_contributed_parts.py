"""Crops, slices, distances and what else com.microsoft reads parts by, beside ONNX Runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

from tests.onnx_refusals import refusal
from tests.relay_layout.frontend.onnx.test_counted import check

RANDOM = np.random.default_rng(6)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _case(nodes: str, inputs: dict[str, np.ndarray], **constants: np.ndarray) -> dict[str, Any]:
    return {
        "nodes": nodes,
        "inputs": inputs,
        "constants": constants,
        "domains": {"com.microsoft": 1},
        "atol": 1e-5,
    }


_BOXES = np.array([[0, 0, 1, 1], [0.1, -0.2, 0.9, 0.5], [0.9, 0.8, 0.1, 0.2]], "float32")
_CROPPED = {"x": _random(2, 3, 4, 5), "r": _BOXES, "b": np.array([0, 1, 1], "int32")}


def _crop(attributes: str, *size: int) -> dict[str, Any]:
    nodes = f"y = com.microsoft.CropAndResize <{attributes}> (x, r, b, s)"
    return _case(nodes, _CROPPED, s=np.array(size, "int32"))


CASES: dict[str, dict[str, Any]] = {
    "crops": _crop('mode="bilinear"', 3, 6),
    "crops_of_one_row": _crop("extrapolation_value=-1.5", 1, 2),
    "slices": _case("y = com.microsoft.UnfoldTensor <size=3> (x)", {"x": _random(2, 3, 7)}),
    "slices_apart": _case(
        "y = com.microsoft.UnfoldTensor <dim=1, size=2, step=3> (x)", {"x": _random(2, 9, 4)}
    ),
    "squared_distances": _case(
        'y = com.microsoft.CDist <metric="sqeuclidean"> (a, b)', {"a": _random(4, 6), "b": _random(5, 6)}
    ),
    "distances": _case(
        'y = com.microsoft.CDist <metric="euclidean"> (a, b)', {"a": _random(4, 6), "b": _random(5, 6)}
    ),
    "transposed_convolution": _case(
        "y = com.microsoft.ConvTransposeWithDynamicPads <strides=[2, 2]> (x, w, p, b)",
        {"x": _random(1, 3, 5, 6)},
        w=_random(3, 4, 3, 3),
        p=np.array([1, 0, 1, 1], "int64"),
        b=_random(4),
    ),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


def test_unique(tmp_path: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> case'
        " (float[N] x) => (float[a] y, int64[N] i, int64[a] n) { y, i, n = com.microsoft.Unique (x) }"
    )
    feeds = [{"x": np.array(row, "float32")} for row in ([3, 1, 1, 7, 3, 3, 0], [5], [2, 2])]
    check(model, feeds, tmp_path)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            'CropAndResize <mode="nearest"> (x, r, b, s)',
            "crops [2,3,4,5] to [3,2] with the mode 'nearest', which is not supported; "
            "images are, by 'bilinear'",
        ),
        ("UnfoldTensor <size=9> (x)", "cuts axis 3 of [2,3,4,5] into slices of 9 with a step of 1"),
        ('CDist <metric="cosine"> (r, r)', "has the metric 'cosine' of [3,4] and [3,4]"),
    ],
)
def test_what_is_refused(node: str, message: str) -> None:
    found = refusal(
        "(float[2,3,4,5] x, float[3,4] r, int32[3] b) => (float y) <int32[2] s = {3, 2}>"
        f" {{ y = com.microsoft.{node} }}"
    )
    assert found == f"node 'y' ({node.split()[0]}) {message}"
