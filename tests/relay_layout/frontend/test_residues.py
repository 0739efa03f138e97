"""Where extents of one size are equal, against trying sizes one by one."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import sym, tirx
from tvm_ffi import structural_map

from relay_layout.frontend.residues import ALL, Residues, equal_residues, never_more

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


def test_extents_of_several_sizes_are_left_alone() -> None:
    other = tirx.Var("w", "int64")
    assert equal_residues(SIZE + other, other + SIZE, ALL) is None
    assert not never_more(SIZE, SIZE + other)


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
            st.builds(tirx.floordiv, inner, small),
            st.builds(tirx.floormod, inner, small),
        )

    return st.recursive(st.one_of(st.just(SIZE), st.integers(-4, 9).map(number)), larger, max_leaves=7)


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
