"""Extents as products: what has to be equal for two to be."""

from collections.abc import Sequence
from typing import Any

import pytest
from tvm import tirx

from relay_layout.frontend.extents.arithmetic import same
from relay_layout.frontend.extents.factors import pairs_of_factors

H, W = (tirx.Var(name, "int64") for name in "hw")
ROUNDED = tirx.max(H // 32 * 32 - 1, tirx.const(0, "int64")) // 4 + 1


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (ROUNDED * ((W - 1) // 4 + 1), H // 32 * ((W - 1) // 4 + 1) * 8, [(ROUNDED, H // 32 * 8)]),
        (H // 2 * (W // 2) * 4, H * W, [(H // 2 * 2, H), (W // 2 * 2, W)]),
        (H // 2 * (W // 4) * 3, H * W, [(H // 2 * (W // 4) * 3, H * W)]),
        (H // 2 * 4, W * 4, [(H // 2, W)]),
        (H * W, H * W * W, [(1, W)]),
        (H * (H + W), W * (H + 2 * W), [(H * (H + W), W * (H + 2 * W))]),
    ],
    ids=str,
)
def test_pairs(left: Any, right: Any, expected: Sequence[tuple[Any, Any]]) -> None:
    found = pairs_of_factors(left, right)
    assert len(found) == len(expected)
    for pair, other in zip(found, expected, strict=True):
        assert all(map(same, pair, other))
