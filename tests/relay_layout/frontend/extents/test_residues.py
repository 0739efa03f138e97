"""Where extents of one size are equal, against trying sizes one by one."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import sym, tirx
from tvm_ffi import structural_map

from relay_layout.frontend.extents.arithmetic import same, simplify
from relay_layout.frontend.extents.known_sizes import Interval, known_sizes
from relay_layout.frontend.extents.residues import ALL, Residues, equal_interval, equal_residues, never_more

SIZE = tirx.Var("h", "int64")
TRIED = 400


def number(value: int) -> Any:
    return tirx.const(value, "int64")


def at(extent: Any, size: int) -> int:
    replaced = structural_map(extent, (tirx.Var, lambda _: number(size)))
    return int(sym.Analyzer().simplify(replaced))


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        ((SIZE + 1) // 2 * 2, Residues(2, 0)),
        ((SIZE - 1) // 16 * 16 + 1, Residues(16, 1)),
        (SIZE + (7 - SIZE % 7) % 7, Residues(7, 0)),
        # As TVM writes what is missing to a multiple.
        (SIZE - tirx.floormod(SIZE, number(-7)), Residues(7, 0)),
        (tirx.min(SIZE, SIZE + 5), ALL),
        (tirx.max(SIZE - 1, number(0)) + tirx.min(SIZE, number(1)), ALL),
        (tirx.max(SIZE - 1, number(0)) + 1, ALL),
        (tirx.max((SIZE - 1) // 4 * 4 + 1, number(0)), Residues(4, 1)),
        # Sizes of which 4 leaves 0 or 1, 8 leaves 0 or 5 to 7, 4 leaves 1 or 2.
        (SIZE // 4 * 4 + SIZE % 2, Residues(4, 0)),
        (SIZE + ((SIZE - 1) // 4 + 1) - ((SIZE - 1) // 8 * 2 + 2), Residues(8, 0)),
        (SIZE + (SIZE + 3) // 4 - (SIZE + 1) // 4 - 1, Residues(4, 1)),
        (tirx.max(SIZE, number(3)), None),
        (SIZE // 2, None),
        (SIZE * SIZE, None),
    ],
)
def test_extents_that_are_the_size_itself(extent: Any, expected: Residues | None) -> None:
    assert equal_residues(extent, SIZE, ALL) == expected


def test_what_is_known_of_a_size_is_part_of_the_answer() -> None:
    halves, quarters = SIZE // 2 * 2, SIZE // 4 * 4
    assert equal_residues(halves, quarters, ALL) == Residues(4, 0)
    assert equal_residues(halves, quarters, Residues(2, 0)) == Residues(4, 0)
    assert equal_residues(halves, quarters, Residues(6, 2)) == Residues(12, 8)


def test_residues_of_several_sizes_are_left_alone() -> None:
    other = tirx.Var("w", "int64")
    assert equal_residues(SIZE + other, other + SIZE, ALL) is None


def test_bounds_of_several_sizes_hold_for_each_on_its_own() -> None:
    other = tirx.Var("w", "int64")
    assert never_more(SIZE, SIZE + other) and not never_more(SIZE + 1, SIZE + other)
    assert never_more(SIZE + 1, SIZE + other, least=1)
    assert never_more(0, tirx.min(SIZE // 32 * (other // 32) * 21, number(300)))
    assert not never_more(SIZE, other) and not never_more(SIZE, SIZE * other)


def test_periods_that_are_too_long_are_left_alone() -> None:
    assert equal_residues(SIZE // 99991 * 99991, SIZE, ALL) is None


def extents() -> st.SearchStrategy[Any]:
    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        small = st.sampled_from([-5, -2, 1, 2, 3, 4, 6]).map(number)
        return st.one_of(
            st.builds(lambda one, other: one + other, inner, inner),
            st.builds(lambda one, other: one - other, inner, inner),
            st.builds(tirx.min, inner, inner),
            st.builds(tirx.max, inner, inner),
            st.builds(lambda one, by: one * by, inner, small),
            st.builds(lambda one, if_more: one * tirx.min(tirx.max(if_more, 0), 1), inner, inner),
            st.builds(tirx.floordiv, inner, small),
            st.builds(tirx.floormod, inner, small),
        )

    return st.recursive(st.one_of(st.just(SIZE), st.integers(-4, 9).map(number)), larger, max_leaves=7)


def half_toward_zero(extent: Any) -> Any:
    """As ONNX divides integers."""
    return tirx.max(extent, number(0)) // 2 - tirx.max(0 - extent, number(0)) // 2


@settings(max_examples=60, deadline=None)
@given(extents(), extents())
def test_what_is_proven_holds(left: Any, right: Any) -> None:
    found = equal_residues(left, right, ALL)
    if found is not None:
        for size in range(found.rest or found.divisor, TRIED, found.divisor):
            assert at(left, size) == at(right, size), f"{left} | {right} | {size}"
    if never_more(left, right):
        for size in range(TRIED):
            assert at(left, size) <= at(right, size), f"{left} | {right} | {size}"
    interval = equal_interval(left, right)
    if interval is not None:
        for size in range(1, TRIED):
            equal = at(left, size) == at(right, size)
            within = interval.least <= size <= (interval.most or TRIED)
            assert equal or not within, f"{left} | {right} | {size}"
            # Of sizes before those from which all are equal nothing is said, but of the last one.
            if interval.most is not None or size == interval.least - 1:
                assert equal == within, f"{left} | {right} | {size}"


@settings(max_examples=30, deadline=None)
@given(extents(), extents(), st.integers(0, 6), st.one_of(st.none(), st.integers(7, 40)))
def test_what_is_proven_of_bounded_sizes_holds(left: Any, right: Any, least: int, most: int | None) -> None:
    with known_sizes({SIZE: Interval(least, most)}):
        proven, simple = never_more(left, right), simplify(left)
        interval, residues = equal_interval(left, right), equal_residues(left, right, ALL)
    for size in range(least, (most or TRIED) + 1):
        assert at(simple, size) == at(left, size), f"{left} | {size}"
        if proven:
            assert at(left, size) <= at(right, size), f"{left} | {right} | {size}"
        within = interval is not None and interval.least <= size <= (interval.most or TRIED)
        among = residues is not None and size % residues.divisor == residues.rest
        if size and (within or among):
            assert at(left, size) == at(right, size), f"{left} | {right} | {size}"


def test_a_size_is_tried_throughout_a_period_from_where_it_is_known() -> None:
    with known_sizes({SIZE: Interval(3, None)}):
        assert equal_interval((SIZE + 5) // 8, (SIZE + 7) // 8) is None
        assert equal_residues((SIZE + 1) // 2 * 2, SIZE, ALL) == Residues(2, 0)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (SIZE, tirx.min(SIZE, number(32)), Interval(0, 32)),
        (tirx.max(SIZE - 2, number(0)), SIZE - 2, Interval(2, None)),
        (tirx.max(tirx.min(SIZE, number(32)), number(4)), SIZE, Interval(4, 32)),
        # As far as a bound is below zero, a product is added.
        (
            tirx.min(tirx.max(3 - SIZE // 4, number(0)), number(1)) * (SIZE // 2 + 1) + SIZE,
            SIZE,
            Interval(12, None),
        ),
        # A half rounded down, and toward zero: of 1 both are -1.
        ((SIZE - 3) // 2, half_toward_zero(SIZE - 3), Interval(3, None)),
        (SIZE, SIZE + 1, None),
        (SIZE, 2 * SIZE, None),
        # Those of which 8 leaves 0 or 5 to 7, and those of which 4 leaves 0 or 1.
        ((SIZE - 1) // 4, (SIZE - 1) // 8 * 2 + 1, None),
        (SIZE, SIZE // 4 * 4 + SIZE % 2, None),
    ],
)
def test_sizes_that_are_equal_in_one_interval(left: Any, right: Any, expected: Interval | None) -> None:
    assert equal_interval(left, right) == expected
    if expected is not None:
        equal = {size for size in range(1, TRIED) if at(left, size) == at(right, size)}
        assert equal >= set(range(max(1, expected.least), (expected.most or TRIED - 1) + 1))
        assert expected.least - 1 not in equal


def test_what_is_known_of_a_size_bounds_what_is_said_of_it() -> None:
    capped = tirx.min(SIZE, number(32))
    assert not never_more(SIZE, capped) and not never_more(4, SIZE)
    with known_sizes({SIZE: Interval(4, 32)}):
        assert never_more(SIZE, capped) and never_more(4, SIZE)
        assert equal_interval(SIZE, capped) == Interval(4, 32)
        assert same(simplify(capped), SIZE)
    with known_sizes({SIZE: Interval(2, None)}):
        assert never_more(2, SIZE) and not never_more(SIZE, 2)
        assert same(tirx.max(SIZE - 2, number(0)), SIZE - 2)
