"""Index arithmetic of layouts, against numpy's reshape and transpose."""

import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_reference import pack, unpack

from topi_ext.indexing import (
    BlockedCoordinate,
    block_of,
    in_halves,
    layout_of,
    logical_extent,
    physical_axes,
    physical_index,
    word_axis,
)

# No deadline: the machine is shared.
quick = settings(deadline=None, max_examples=150, derandomize=True)

KNOWN = (
    "NCHW",
    "NHWC",
    "CHWN",
    "WC",
    "NCHW4c",
    "NCHW16c",
    "NCHW4h8c",
    "NCHW4c2c",
    "OIHW",
    "HWIO",
    "HWOI",
    "OHWI8o",
    "OIHW16o",
    "OIHW16i16o",
    "OIHW4i16o4i",
    "OIHW2o8i4o",
)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    """Some axes in any order with blocks anywhere behind them, and an extent for each axis."""
    letters = draw(st.permutations(draw(st.sampled_from(["C", "HW", "OIH", "NCHW"]))))
    parts = list(letters)
    extents = {letter: draw(st.integers(1, 3)) for letter in letters}
    for letter in draw(st.lists(st.sampled_from(letters), max_size=3)):
        factor = draw(st.integers(2, 4))
        parts.insert(draw(st.integers(parts.index(letter) + 1, len(parts))), f"{factor}{letter.lower()}")
        extents[letter] *= factor
    return "".join(parts), extents


def numbered(extents: dict[str, int]) -> np.ndarray:
    return np.arange(np.prod(list(extents.values()))).reshape(list(extents.values()))


@pytest.mark.parametrize(
    ("layout", "axes"),
    [
        ("NCHW", [("N", 0), ("C", 0), ("H", 0), ("W", 0)]),
        ("WC", [("W", 0), ("C", 0)]),
        ("NCHW16c", [("N", 0), ("C", 0), ("H", 0), ("W", 0), ("C", 16)]),
        ("OIHW4i16o4i", [("O", 0), ("I", 0), ("H", 0), ("W", 0), ("I", 4), ("O", 16), ("I", 4)]),
    ],
)
def test_physical_axes_are_in_memory_order(layout: str, axes: list[tuple[str, int]]) -> None:
    assert list(physical_axes(layout)) == axes


@pytest.mark.parametrize(
    ("layout", "axis", "block"),
    [
        ("NCHW", "C", 1),
        ("NCHW16c", "C", 16),
        ("NCHW16c", "H", 1),
        ("OIHW4i16o4i", "I", 16),
        ("OIHW4i16o4i", "O", 16),
        ("WC", "N", 1),
    ],
)
def test_block_of_multiplies_all_blocks_of_the_axis(layout: str, axis: str, block: int) -> None:
    assert block_of(layout, axis) == block


@pytest.mark.parametrize("layout", KNOWN)
def test_every_element_of_known_layouts(layout: str) -> None:
    axes = sorted({name for name, _ in physical_axes(layout)})
    check_all_elements(layout, {axis: 2 * block_of(layout, axis) for axis in axes})


@given(layouts())
@quick
def test_every_element_of_random_layouts(drawn: tuple[str, dict[str, int]]) -> None:
    layout, extents = drawn
    check_all_elements(layout, extents)


def check_all_elements(layout: str, extents: dict[str, int]) -> None:
    """Number the elements, store them, and find each number again through ``physical_index``."""
    logical = numbered(extents)
    stored = pack(logical, "".join(extents), layout)
    coordinates = dict(zip(extents, np.indices(logical.shape), strict=True))
    np.testing.assert_array_equal(stored[tuple(physical_index(layout, coordinates))], logical)
    np.testing.assert_array_equal(unpack(stored, "".join(extents), layout), logical)
    assert {axis: logical_extent(layout, stored.shape, axis) for axis in extents} == extents


@given(layouts(), st.data())
@quick
def test_a_blocked_coordinate_means_its_flat_position(
    drawn: tuple[str, dict[str, int]], data: st.DataObject
) -> None:
    layout, extents = drawn
    blocked = {}
    for axis, extent in extents.items():
        divisors = [size for size in range(1, extent + 1) if extent % size == 0]
        block = data.draw(st.sampled_from(divisors))
        position = data.draw(st.integers(0, extent - 1))
        blocked[axis] = BlockedCoordinate(position // block, position % block, block)
    flat = {axis: coordinate.flat for axis, coordinate in blocked.items()}
    assert physical_index(layout, blocked) == physical_index(layout, flat)


def test_matching_blocks_hand_their_variables_over() -> None:
    outer, inner = object(), object()
    coordinates = {"N": 1, "C": BlockedCoordinate(outer, inner, 16), "H": 2, "W": 3}
    assert physical_index("NCHW16c", coordinates) == [1, outer, 2, 3, inner]


def test_axes_that_the_layout_leaves_out_are_ignored() -> None:
    assert physical_index("WC", {"N": 0, "C": 5, "H": 0, "W": 7}) == [7, 5]
    assert logical_extent("WC", (4, 8), "N") == 1


def test_no_letter_is_special() -> None:
    for letter in string.ascii_uppercase:
        assert physical_axes(f"{letter}8{letter.lower()}") == ((letter, 0), (letter, 8))


@pytest.mark.parametrize(
    ("layout", "axis", "stored"),
    [
        ("OIHW8o", "I", "OIHW2i8o2i"),
        ("OIHW2i8o", "I", "OIHW2i2i8o2i"),
        ("HWIO", "I", "HWI2iO2i"),
        ("OIHW16o", "W", "OIHW2w16o2w"),
    ],
)
def test_words_in_halves(layout: str, axis: str, stored: str) -> None:
    assert in_halves(layout, axis) == stored
    assert (word_axis(stored, 4), word_axis(stored, 2)) == (axis, axis)


@pytest.mark.parametrize(
    ("layout", "elements", "axis"),
    [
        ("OIHW4i16o4i", 4, "I"),
        ("OIHW16o4w", 4, "W"),
        ("OIHW8i16o2i", 2, "I"),
        ("OIHW8i16o2i", 4, ""),
        ("OHWI16o2i", 4, ""),
        ("OIHW2i2i", 4, ""),
        ("OIHW2w8o2i", 4, ""),
        ("HWIO", 4, ""),
        ("OIHW16o", 1, ""),
    ],
)
def test_words_lie_innermost(layout: str, elements: int, axis: str) -> None:
    assert word_axis(layout, elements) == axis


@pytest.mark.parametrize("layout", KNOWN)
def test_a_layout_is_its_axes(layout: str) -> None:
    assert layout_of(physical_axes(layout)) == layout
