"""Extents as sums of products."""

import pytest
from tvm import tirx

from relay_layout.ir import Extent
from relay_layout.polynomials import polynomial, provably_equal

H, W, AREA = (tirx.Var(name, "int64") for name in ("h", "w", "area"))
KNOWN = {AREA: polynomial(H * W, {}) or {}}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (H * W * 15, AREA * 15),
        (W * 3 * H, AREA + AREA * 2),
        ((H + 1) * (W - 1), AREA - H + W - 1),
        (H - H, 0),
        (H * H, H * H + AREA - W * H),
    ],
)
def test_equal_extents_read_the_same(left: Extent, right: Extent) -> None:
    assert polynomial(left, KNOWN) == polynomial(right, KNOWN) is not None


@pytest.mark.parametrize(("left", "right"), [(H * W, H + W), (H * H, H), (AREA, AREA + 1), (H * 2, H)])
def test_others_do_not(left: Extent, right: Extent) -> None:
    assert polynomial(left, KNOWN) != polynomial(right, KNOWN)


def test_quotients_are_taken_as_a_whole() -> None:
    half = (H - 1) // 2
    assert provably_equal([64 * (half + 1) * W], [32 * ((half * 2 + 2) * W)])
    assert not provably_equal([64 * (half + 1) * W], [32 * ((H // 2 * 2 + 2) * W)])
    assert not provably_equal([half * W], [(W - 1) // 2 * W])


def test_sums_of_very_many_products_are_left() -> None:
    variables = [tirx.Var(f"v{number}", "int64") for number in range(9)]
    long = sum(variables[1:], variables[0])
    assert polynomial(long, {}) is not None
    assert polynomial(long * long, {}) is None
