"""Quotients of extents, which may be symbolic."""

from typing import Any

import pytest
from tvm import tirx

from relay_layout.verify.symbols import Symbol, extents, ratio, times

N, H, W = (tirx.Var(name, "int64") for name in "nhw")
POOLED = (H - 1) // 2 + 1


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (12, 4, 3),
        (12, 5, None),
        (0, 0, 1),
        (12, 0, None),
        (N * 12, 12, N),
        (N * 12, 4, N * 3),
        (N * 12, 5, None),
        (N * 12, N * 4, 3),
        (N * (H * W * 4), N * 2, H * W * 2),
        (N * 12 * POOLED * W, W * POOLED, N * 12),
        (H * 4 + 4, H + 1, 4),
        (H * (W * 4 - 2), H * 2, W * 2 - 1),
        (H * (W * 2 + 2 - (W + 1) % 2 * 2), H * 2, W + 1 - (W + 1) % 2),
        (N, N * 2, None),
        (12, N, None),
        (N, H, None),
    ],
    ids=str,
)
def test_ratio(left: Any, right: Any, expected: Any) -> None:
    before, after = extents((left, right))
    assert ratio(before, after) == (None if expected is None else extents((expected,))[0])


def test_products_are_equal_in_any_order() -> None:
    left, right, middle = Symbol(N * 12), Symbol(POOLED), Symbol(W)
    assert times(times(left, right), middle) == times(right, times(middle, left))


def test_sums_are_told_apart() -> None:
    assert Symbol(H + 1) != Symbol(H + 2)


@pytest.mark.parametrize(("bound", "is_none"), [(N * 2 + 1, True), (N - 1, False)], ids=str)
def test_sizes_are_never_negative(bound: Any, is_none: bool) -> None:
    cut = tirx.min(tirx.const(16, "int64"), bound)
    before = tirx.min(tirx.const(0, "int64"), bound)
    assert (Symbol(cut - before) == Symbol(cut)) == is_none
