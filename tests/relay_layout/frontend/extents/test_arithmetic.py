"""Extents that stay numbers where they are known, and simple expressions elsewhere."""

from typing import Any

import pytest
import tvm
from tvm_ffi import structural_equal

from relay_layout.frontend.extents.arithmetic import clamped, greatest, least, product, same, simplify


def const(number: int) -> Any:
    return tvm.tirx.const(number, "int64")


N, H = (tvm.tirx.Var(name, "int64") for name in "nh")

CASES = {
    "numbers": (product([2, 3, 4]), 24),
    "of no dimensions": (product([]), 1),
    "what cancels out": (simplify(N + 3 - N), 3),
    "rounded up to a multiple": (simplify(N - N % -4), (N + 3) // 4 * 4),
    "the last of some": (simplify(const(-1) % N), N - 1),
    "the last of windows of 7": (simplify(const(-3) % (N // 7 * 7)), N // 7 * 7 - 3),
    "of fewer than are left out": (simplify(const(-3) % N), const(-3) % N),
    "smaller of numbers": (least(2, 5), 2),
    "smaller where it is proven": (least(N + 2, N), N),
    "smaller of any": (least(N, H), tvm.tirx.min(N, H)),
    "larger where it is proven": (greatest(N, N + 2), N + 2),
    "larger of any": (greatest(N, 7), tvm.tirx.max(N, const(7))),
    "below zero": (clamped(-3, 5), 0),
    "pixels that are no more than some": (clamped(300, N * H), tvm.tirx.min(N * H, 300)),
    "beyond the limit": (clamped(N + 1, N), N),
}


@pytest.mark.parametrize("name", CASES)
def test_extents(name: str) -> None:
    found, expected = CASES[name]
    assert _equal(found, expected), found


def _equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, int):
        return isinstance(found, int) and found == expected
    return bool(structural_equal(found, expected) or tvm.sym.Analyzer().can_prove_equal(found, expected))


def test_extents_are_the_same_where_that_is_proven() -> None:
    assert same(N * 2, N + N)
    assert not same(N, H)
