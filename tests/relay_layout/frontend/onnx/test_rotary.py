"""Rows turned by their positions as com.microsoft has it, beside ONNX Runtime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(29)
PLACES = RANDOM.integers(0, 10, (2, 5))
FIRST = np.array([3])


def _turned(attributes: str, half: int, *shape: int, places: np.ndarray = PLACES) -> dict[str, Any]:
    x = RANDOM.standard_normal(shape).astype("float32")
    angles = {name: RANDOM.standard_normal((10, half)).astype("float32") for name in "cs"}
    return {
        "nodes": f"y = com.microsoft.RotaryEmbedding <{attributes}> (x, p, c, s)",
        "inputs": {"x": x, "p": places},
        "constants": angles,
        "domains": {"com.microsoft": 1},
        "atol": 1e-5,
    }


CASES: dict[str, dict[str, Any]] = {
    "rows": _turned("interleaved=0", 4, 2, 5, 24),
    "neighbours": _turned("interleaved=1", 4, 2, 5, 24),
    "heads": _turned("interleaved=0", 4, 2, 3, 5, 8),
    "from_a_position": _turned("interleaved=1", 4, 2, 3, 5, 8, places=FIRST),
    "scaled": _turned("scale=2.0", 4, 2, 5, 24),
    "packed": _turned(
        "is_packed_batching=1, num_heads=3", 4, 1, 12, 24, places=RANDOM.integers(0, 10, (1, 12))
    ),
    "some_features": _turned("num_heads=3, rotary_embedding_dim=4", 2, 2, 5, 24),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("<interleaved=0> (c, p, c, c)", "turns [10,4] where [N,S,C] or [N,H,S,D] is due"),
        ("<num_heads=6> (x, p, c, c)", "turns 8 features of 4 in [2,5,24]"),
        ("<interleaved=0> (x, x, c, c)", "has positions [2,5,24] where [1] or [2,5] is due"),
    ],
)
def test_what_is_refused(node: str, message: str) -> None:
    inputs = "(float[2,5,24] x, int64[2,5] p, float[10,4] c)"
    found = refusal(f"{inputs} => (float[a,b,c] y) {{ y = com.microsoft.RotaryEmbedding {node} }}")
    assert found == f"node 'y' (RotaryEmbedding) {message}"
