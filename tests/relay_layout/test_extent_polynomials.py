"""Extents as sums of products."""

import pytest
from tvm import sym, tirx

from relay_layout.extent_polynomials import polynomial, provably_equal
from relay_layout.ir import Extent

H, W, AREA = (tirx.Var(name, "int64") for name in ("h", "w", "area"))


def number(value: int) -> Extent:
    return tirx.const(value, "int64")


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


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (64 * ((H - 1) // 2 + 1) * W, 32 * (((H - 1) // 2 * 2 + 2) * W)),
        ((H + 7) // 16 * ((W + 7) // 16), ((H - 9) // 16 + 1) * ((W - 9) // 16 + 1)),
        ((H * 4 + W - 5) // 4, H + (W - 1) // 4 - 1),
        (((H + 3) // 4 - 3) // 2, (H - 9) // 8),
        (H % 8 + H // 8 * 8, H),
        (H * (W // 2) * 6 // (W // 2 * 2), H * 3),
        (H * (W // 2) % (W // 2), 0),
        ((H * W + 11) % 8, (3 + W * H) % 8),
        (tirx.max(H, W) // 2 * 4, tirx.max(H, W) // 2 * 3 + tirx.max(H, W) // 2),
    ],
)
def test_quotients_are_equal_however_they_are_written(left: Extent, right: Extent) -> None:
    assert provably_equal([left], [right])
    for h, w in ((1, 2), (9, 16), (24, 7)):
        analyzer = sym.Analyzer()
        analyzer.bind(H, number(h))
        analyzer.bind(W, number(w))
        assert int(analyzer.simplify(left - right)) == 0, f"{left} | {right} | {h}, {w}"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (64 * ((H - 1) // 2 + 1) * W, 32 * ((H // 2 * 2 + 2) * W)),
        ((H - 1) // 2 * W, (W - 1) // 2 * W),
        (H // 4 // 2, H // 4 // 3),
        ((H + 3) // 4, H // 4),
        (H // 2 * 2, H),
        ((H * (W // 2) + 1) // (W // 2), H),
        (tirx.max(H, number(2)), tirx.max(W, number(2))),
    ],
)
def test_quotients_that_differ_are_not_equal(left: Extent, right: Extent) -> None:
    assert not provably_equal([left], [right])


def test_shapes_are_equal_however_they_are_written() -> None:
    assert provably_equal((2 * H, 3), (H + H, 3))
    assert not provably_equal((H, 3), (W, 3))
    assert not provably_equal((3,), (3, 1))


def test_sums_of_very_many_products_are_left() -> None:
    variables = [tirx.Var(f"v{number}", "int64") for number in range(9)]
    long = sum(variables[1:], variables[0])
    assert polynomial(long, {}) is not None
    assert polynomial(long * long, {}) is None
