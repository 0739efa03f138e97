"""Transforms between layouts: index maps, moving arrays, dim_order."""

import itertools
import string
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_layout.layout import Layout
from relay_layout.layout.transform import apply, dim_order, from_dim_order, index_map
from tests.relay_layout.layout.layout_reference import (
    Symbol,
    cases,
    layouts,
    message,
    numbered,
    place,
    quick,
    reference_index,
)


def expressions(src: str, dst: str) -> list[str]:
    """What map_index builds, over the dimensions of ``src`` named by their text."""
    index = [Symbol(str(axis)) for axis in Layout.parse(src).axes]
    return [
        entry.text if isinstance(entry, Symbol) else str(entry)
        for entry in index_map(src, dst).map_index(index)
    ]


@pytest.mark.parametrize(
    ("src", "dst", "expected"),
    [
        ("NCHW", "NHWC", ["N", "H", "W", "C"]),
        ("NCHW", "NCHW16c", ["N", "(C//16)", "H", "W", "(C%16)"]),
        ("NCHW16c", "NHWC", ["N", "H", "W", "((C*16)+16c)"]),
        ("NCHW16c", "NHWC16c", ["N", "H", "W", "C", "16c"]),
        ("NC16c", "NC8c", ["N", "((C*2)+(16c//8))", "(16c%8)"]),
        ("NC8c", "NC16c", ["N", "(C//2)", "(((C%2)*8)+8c)"]),
        ("C16c", "C4c4c", ["C", "(16c//4)", "(16c%4)"]),
        ("C4c2c", "C2c4c", ["C", "(4c//2)", "(((4c%2)*2)+2c)"]),
        ("C6c", "C4c", ["(((C*6)+6c)//4)", "(((C*6)+6c)%4)"]),
        ("NC", "NC1c", ["N", "C", "0"]),
        ("NC1c", "CN", ["C", "N"]),
        ("NC[a=8]", "CN", ["C", "N"]),
        ("4cNC", "NC", ["N", "((C*4)+4c)"]),
    ],
)
def test_index_expressions_are_simple(src: str, dst: str, expected: list[str]) -> None:
    assert expressions(src, dst) == expected


@quick
@given(cases(2, smallest=1, largest=12))
def test_map_index_agrees_with_the_grammar(case: tuple[list[Layout], str, list[int]]) -> None:
    (src, dst), order, shape = case
    transform = index_map(src, dst)
    for index in itertools.islice(np.ndindex(*shape), 0, None, 1 + prod(shape) // 50):
        logical = dict(zip(order, map(int, index), strict=True))
        source = reference_index(src, logical)
        target = reference_index(dst, logical)
        assert transform.map_index(source) == target
        assert transform.inverse().map_index(target) == source


@quick
@given(cases(3, smallest=1, largest=12), st.data())
def test_maps_follow_one_another_and_back(
    case: tuple[list[Layout], str, list[int]], data: st.DataObject
) -> None:
    (first, second, third), order, shape = case
    logical = {name: data.draw(st.integers(0, extent - 1)) for name, extent in zip(order, shape, strict=True)}
    index = reference_index(first, logical)
    there, onward = index_map(first, second), index_map(second, third)
    assert index_map(first, third).map_index(index) == onward.map_index(there.map_index(index))
    assert there.inverse().inverse() == there
    assert (there.inverse().map_index(there.map_index(index))) == index


@quick
@given(layouts("NCHW"), layouts("NCHW"))
def test_expressions_have_no_idle_operations(src: Layout, dst: Layout) -> None:
    for text in expressions(str(src), str(dst)):
        for idle in ("//1)", "%1)", "*1)", "*0)", "+0)", "(0+", "(0*"):
            assert idle not in text


def test_kinds_of_transforms() -> None:
    assert index_map("NCHW16c", "NCHW16c").is_identity
    assert not index_map("NCHW", "NC[a=8]HW").is_identity
    assert not index_map("NCHW", "NC[a=8]HW").is_permutation
    assert index_map("NCHW", "NHWC").permutation == (0, 2, 3, 1)
    assert index_map("NC[a=8]HW", "NHWC[a=8]").permutation == (0, 2, 3, 1)
    assert index_map("NCHW4c2c", "N4cHWC2c").permutation == (0, 4, 2, 3, 1, 5)
    assert not index_map("NCHW", "NCHW16c").is_permutation
    assert not index_map("NCHW", "NCHW16c").is_identity
    assert str(index_map("NCHW", "NHWC")) == "NCHW -> NHWC"
    assert message(lambda: index_map("NCHW", "NCHW16c").permutation) == (
        "'NCHW -> NCHW16c': not a permutation of dimensions; use the index map or apply"
    )
    assert message(index_map, "NCHW", "NCH") == (
        "layouts 'NCHW' and 'NCH': their axes differ, N, C, H, W and N, C, H; "
        "use the same capital letters in both"
    )
    assert message(index_map("NCHW", "NHWC").map_index, (1, 2)) == (
        "index (1, 2): it has 2 entries but layout 'NCHW' has 4 dimensions; give one entry per dimension"
    )


@quick
@given(cases(2, smallest=1))
def test_permutation_is_what_apply_does(case: tuple[list[Layout], str, list[int]]) -> None:
    (src, dst), order, shape = case
    for source, target in ((src, dst), (src.primal_layout, dst.primal_layout), (src, src)):
        transform = index_map(source, target)
        assert transform.is_permutation or not (source.is_plain and target.is_plain)
        if transform.is_permutation:
            array = numbered(source.shape(shape, order))
            assert np.array_equal(array.transpose(transform.permutation), apply(array, source, target))


@quick
@given(cases(2))
def test_apply_agrees_with_moving_each_element(case: tuple[list[Layout], str, list[int]]) -> None:
    (src, dst), order, unpadded = case
    shape = src.logical_shape(src.shape(unpadded, order), order)
    logical = numbered(shape)
    array = place(logical, order, src)
    result = apply(array, src, dst)
    expected = place(logical, order, dst)
    assert result.shape == expected.shape and result.dtype == array.dtype and result.flags.c_contiguous
    assert np.array_equal(result, expected)
    # And through map_index, which is written apart from apply.
    transform = index_map(src, dst)
    for index in itertools.islice(np.ndindex(*shape), 20):
        source = reference_index(src, dict(zip(order, map(int, index), strict=True)))
        assert result[transform.map_index(source)] == array[source]


@quick
@given(cases(2))
def test_apply_keeps_the_padding_as_data(case: tuple[list[Layout], str, list[int]]) -> None:
    (src, dst), order, shape = case
    array = numbered(src.shape(shape, order))
    padded = src.logical_shape(array.shape, order)
    result = apply(array, src, dst)
    assert result.shape == dst.shape(padded, order)
    assert sorted(result[result != 0].tolist()) == array.ravel().tolist()


def test_apply_takes_strided_arrays_and_scalars() -> None:
    array = numbered((4, 6, 10))[::2, ::-1, 1::3]
    assert np.array_equal(apply(array, "NCH", "NHC3c"), apply(np.ascontiguousarray(array), "NCH", "NHC3c"))
    same = apply(array, "NCH", "NCH")
    assert same.flags.c_contiguous and np.array_equal(same, array)
    scalar = Layout.generic(0)
    assert apply(np.array(3.0), scalar, scalar).shape == ()


def test_apply_does_not_copy_where_nothing_moves() -> None:
    array = numbered((2, 32, 1, 1))
    for dst in ("NCHW", "NHWC", "NCHW16c", "NHWC4c4c"):
        assert np.shares_memory(apply(array, "NCHW", dst), array)
    assert not np.shares_memory(apply(array, "NCHW", "CNHW"), array)


def test_apply_of_blocks_that_do_not_nest() -> None:
    array = numbered((2, 12))
    assert np.array_equal(apply(apply(array, "NC", "NC6c"), "NC6c", "CN4c"), apply(array, "NC", "CN4c"))


def test_errors_of_apply() -> None:
    array = np.zeros((1, 2, 3, 4, 16))
    assert message(apply, array, "NCHW", "NHWC") == (
        "shape (1, 2, 3, 4, 16): it has 5 dimensions but layout 'NCHW' has 4; give one extent per dimension"
    )


def test_dim_order() -> None:
    assert dim_order("NHWC", "NCHW") == (0, 2, 3, 1)
    assert str(from_dim_order((0, 2, 3, 1), "NCHW")) == "NHWC"
    assert from_dim_order((), Layout.generic(0)) == Layout.generic(0)
    assert dim_order(Layout.generic(0), Layout.generic(0)) == ()
    blocked = "a dim_order has no blocks or alignments; use a plain layout"
    assert message(dim_order, "NCHW16c", "NCHW") == f"layout 'NCHW16c': {blocked}"
    assert message(dim_order, "NCHW", "NC[a=8]HW") == f"layout 'NC[a=8]HW': {blocked}"
    assert message(from_dim_order, (0, 1), "NC8c") == f"layout 'NC8c': {blocked}"
    assert message(from_dim_order, (0, 1, 1, 2), "NCHW") == (
        "dim_order (0, 1, 1, 2): not an order of the dimensions of 'NCHW'; write each of 0 to 3 once"
    )


@quick
@given(st.integers(0, 6).flatmap(lambda rank: st.permutations(range(rank))), st.data())
def test_dim_order_round_trip_and_numpy(order: list[int], data: st.DataObject) -> None:
    letters = data.draw(st.permutations(string.ascii_uppercase))[: len(order)]
    over = Layout.parse("".join(letters)) if letters else Layout.generic(0)
    layout = from_dim_order(order, over)
    assert dim_order(layout, over) == tuple(order)
    assert from_dim_order(dim_order(over, layout), layout) == over
    array = numbered(range(1, len(order) + 1))
    assert np.array_equal(apply(array, over, layout), array.transpose(order))
    # ExecuTorch and PyTorch: the dimensions by falling stride.
    memory = np.empty(layout.shape(array.shape, over)).transpose(np.argsort(order))
    assert memory.shape == array.shape
    assert sorted(range(len(order)), key=lambda k: (-memory.strides[k], order.index(k))) == order
