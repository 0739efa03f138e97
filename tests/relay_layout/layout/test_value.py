"""Layouts as values: changed ones, and shapes."""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from relay_layout.layout import Layout
from tests.relay_layout.layout.layout_reference import Symbol, cases, layouts, message, quick


def test_with_block() -> None:
    assert str(Layout.parse("NCHW").with_block("C", 16)) == "NCHW16c"
    assert str(Layout.parse("OIHW4i16o").with_block("I", 4)) == "OIHW4i16o4i"
    assert (
        message(Layout.parse("NCHW").with_block, "K", 8)
        == "layout 'NCHW': it has no axis 'K'; its axes are N, C, H, W"
    )
    assert message(Layout.parse("NCHW").with_block, "C", 0) == (
        "layout 'NCHW': block 0 for axis 'C'; give an int of 1 or more"
    )
    assert message(Layout.parse("NC[a=8]").with_block, "C", 8) == (
        "layout 'NC[a=8]8c': axis 'C' has both an alignment at position 2 and a block at position 7; "
        "keep one of them"
    )


def test_relabel() -> None:
    mapping = dict(zip("NCHW", "ABCD", strict=True))
    assert str(Layout.parse("NHWC16c").relabel(mapping)) == "ACDB16b"
    assert str(Layout.parse("C[a=8]N").relabel(mapping)) == "B[a=8]A"
    assert str(Layout.parse("NC").relabel({"N": "C", "C": "N"})) == "CN"


def test_letters_of_a_tensor() -> None:
    layout = Layout.parse("NHWC16c").over_dimensions("NCHW")
    assert str(layout) == "ACDB16b"
    assert str(layout.in_letters("OIHW")) == "OHWI16i"
    assert message(Layout.parse("NCHW").relabel, {"N": "C"}) == (
        "layout 'NCHW': axes 'N' and 'C' both relabelled 'C'; give each axis a letter of its own"
    )
    for bad in ("c", "", "AB"):
        assert message(Layout.parse("NCHW").relabel, {"N": bad}) == (
            f"layout 'NCHW': axis 'N' relabelled {bad!r}; give a capital letter"
        )


def test_project() -> None:
    layout = Layout.parse("NC[a=8]HW16w4h")
    assert str(layout.project("NCH")) == "NC[a=8]H4h"
    assert str(layout.project({"H", "W"})) == "HW16w4h"
    assert layout.project("NCHW") == layout
    assert layout.project("") == Layout.generic(0)


@quick
@given(layouts("NCHW"), st.permutations("NCHW"))
def test_relabel_undoes(layout: Layout, letters: list[str]) -> None:
    mapping = dict(zip("NCHW", letters, strict=True))
    assert layout.relabel(mapping).relabel({new: old for old, new in mapping.items()}) == layout


def test_shapes() -> None:
    assert Layout.parse("NCHW16c").shape((1, 64, 7, 8), "NCHW") == (1, 4, 7, 8, 16)
    assert Layout.parse("NCHW16c").shape((1, 7, 8, 3), "NHWC") == (1, 1, 7, 8, 16)
    assert Layout.parse("OIHW4i16o4i").shape((30, 20, 3, 3), "OIHW") == (2, 2, 3, 3, 4, 16, 4)
    assert Layout.parse("NCHW16c").padding((1, 3, 7, 8), "NCHW") == {"N": 0, "C": 13, "H": 0, "W": 0}
    assert Layout.parse("NC16c").padding((1, 1), "NC") == {"N": 0, "C": 15}
    assert Layout.parse("NC[a=4]").padding((1, 9), "NC") == {"N": 0, "C": 3}
    assert Layout.parse("NCHW16c").logical_shape((1, 1, 7, 8, 16), "NHWC") == (1, 7, 8, 16)
    assert Layout.parse("NC").shape((np.int64(3), True), "NC") == (3, 1)


def test_symbolic_extents_pass_through() -> None:
    batch = Symbol("n")
    layout = Layout.parse("NHWC8c")
    shape = layout.shape((batch, 3, 5, 6), "NCHW")
    assert shape[0] is batch and shape[1:] == (5, 6, 1, 8)
    logical = layout.logical_shape(shape, "NCHW")
    assert logical[0] is batch and logical[1:] == (8, 5, 6)
    assert layout.padding((batch, 3, 5, 6), "NCHW") == {"N": 0, "C": 5, "H": 0, "W": 0}
    assert message(layout.shape, (1, "m", 5, 6), "NCHW") == (
        "layout 'NHWC8c': axis 'C' is m; a block or alignment needs an int"
    )
    assert message(Layout.parse("NC[a=8]").fits, (1, "m"), "NC") == (
        "layout 'NC[a=8]': axis 'C' is m; a block or alignment needs an int"
    )
    assert message(layout.logical_shape, (1, 5, 6, "m", 8), "NCHW") == (
        "shape (1, 5, 6, m, 8): dimension 3, 'C' of layout 'NHWC8c', is m; a block or alignment needs an int"
    )


@quick
@given(cases(1, largest=20))
def test_logical_shape_inverts_shape(case: tuple[list[Layout], str, list[int]]) -> None:
    (layout,), order, shape = case
    physical = layout.shape(shape, order)
    padding = layout.padding(shape, order)
    padded = tuple(extent + padding[name] for name, extent in zip(order, shape, strict=True))
    assert layout.logical_shape(physical, order) == padded
    assert layout.shape(padded, order) == physical
    assert prod(physical) == prod(padded)
    assert layout.fits(padded, order) and layout.fits(shape, order) == (padded == tuple(shape))
    for name in order:
        assert 0 <= padding[name] < max(layout.block(name), layout.alignment(name))


def test_errors_of_shapes() -> None:
    layout = Layout.parse("NCHW16c")
    assert message(layout.shape, (1, 3), "NCHW") == (
        "shape (1, 3): it has 2 dimensions but order 'NCHW' has 4; give one extent per axis"
    )
    assert message(layout.shape, (1, 3, 4, -1), "NCHW") == (
        "shape (1, 3, 4, -1): axis 'W' is -1; give 0 or more"
    )
    assert message(layout.shape, (1, 3, 4), "NCH") == (
        "order 'NCH': its axes are not those of layout 'NCHW16c'; write each of N, C, H, W once"
    )
    assert message(layout.shape, (1, 3, 4, 5), "NCHW8c") == (
        "order 'NCHW8c': not plain; write the capital letters alone, e.g. 'NCHW'"
    )
    assert message(layout.logical_shape, (1, 3, 4, 5), "NCHW") == (
        "shape (1, 3, 4, 5): it has 4 dimensions but layout 'NCHW16c' has 5; give one extent per dimension"
    )
    assert message(layout.logical_shape, (1, 3, 4, 5, 8), "NCHW") == (
        "shape (1, 3, 4, 5, 8): dimension 4, '16c' of layout 'NCHW16c', is 8; it must be 16"
    )
    assert message(layout.logical_shape, (1, -3, 4, 5, 16), "NCHW") == (
        "shape (1, -3, 4, 5, 16): dimension 1, 'C' of layout 'NCHW16c', is -3; give 0 or more"
    )
    assert message(Layout.parse("NC[a=4]").logical_shape, (1, 6), "NC") == (
        "shape (1, 6): dimension 1, 'C' of layout 'NC[a=4]', is 6; it must be a multiple of 4"
    )
    assert message(layout.block, "K") == "layout 'NCHW16c': it has no axis 'K'; its axes are N, C, H, W"
    assert message(layout.alignment, "c") == "layout 'NCHW16c': it has no axis 'c'; its axes are N, C, H, W"


def test_uneven_axis() -> None:
    layout = Layout.parse("OIHW4i16o4i")
    assert layout.uneven_axis({"O": 32, "I": 32, "H": 3}) is None
    assert layout.uneven_axis({"O": 32, "I": 24}) == "I"
    assert layout.uneven_axis({"O": "m"}) == "O"
    assert layout.uneven_axis({"H": "h"}) is None


@given(cases(1, largest=20))
def test_an_uneven_axis_is_one_that_is_padded(case: tuple[list[Layout], str, list[int]]) -> None:
    (layout,), order, shape = case
    padding = layout.unaligned.padding(shape, order)
    found = layout.uneven_axis(dict(zip(order, shape, strict=True)))
    assert padding[found] > 0 if found else not any(padding.values())
