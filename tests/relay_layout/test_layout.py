"""Layouts: grammar, shapes, index maps, moving arrays, equal memory, dim_order."""

import copy
import itertools
import pickle
import string
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relay_layout.errors import LayoutError
from relay_layout.layout import Axis, Layout
from relay_layout.layout_grammar import LARGEST_NUMBER
from relay_layout.layout_transform import apply, dim_order, equivalent_memory, from_dim_order, index_map

# No deadline: the machine is shared, and the first example fills caches.
quick = settings(deadline=None, max_examples=100, derandomize=True)

LETTERS = "NCHW"


@st.composite
def layouts(draw: st.DrawFn, letters: str, factors: tuple[int, ...] = (1, 2, 2, 3, 4, 6)) -> Layout:
    """A layout of exactly those axes: any order, up to three blocks anywhere, alignments."""
    parts = list(draw(st.permutations(letters)))
    blocks = draw(st.lists(st.tuples(st.sampled_from(letters), st.sampled_from(factors)), max_size=3))
    split = {letter for letter, _ in blocks}
    aligned = draw(st.sets(st.sampled_from(letters), max_size=1)) - split
    parts = [part + (f"[a={draw(st.sampled_from(factors))}]" if part in aligned else "") for part in parts]
    for letter, factor in blocks:
        parts.insert(draw(st.integers(0, len(parts))), f"{factor}{letter.lower()}")
    return Layout.parse("".join(parts))


@st.composite
def cases(
    draw: st.DrawFn, count: int, smallest: int = 0, largest: int = 7
) -> tuple[list[Layout], str, list[int]]:
    """Layouts of the same axes, a plain order of these, and extents in that order."""
    letters = LETTERS[: draw(st.integers(1, 3))]
    order = "".join(draw(st.permutations(letters)))
    shape = draw(st.lists(st.integers(smallest, largest), min_size=len(letters), max_size=len(letters)))
    return [draw(layouts(letters)) for _ in range(count)], order, shape


def reference_index(layout: Layout, logical: Mapping[str, int]) -> tuple[int, ...]:
    """Physical index by peeling blocks off the logical index from the innermost: the grammar, read again."""
    left = dict(logical)
    index: list[int] = [0] * layout.rank
    for position in reversed(range(layout.rank)):
        name, factor = layout.axes[position]
        if factor is not None:
            left[name], index[position] = divmod(left[name], factor)
    for position, (name, factor) in enumerate(layout.axes):
        if factor is None:
            index[position] = left[name]
    return tuple(index)


def place(logical: np.ndarray, order: str, layout: Layout, pad_value: int) -> np.ndarray:
    """The array of ``layout``, one element at a time."""
    result = np.full(layout.shape(logical.shape, order), pad_value, dtype=logical.dtype)
    for index in np.ndindex(logical.shape):
        result[reference_index(layout, dict(zip(order, index, strict=True)))] = logical[index]
    return result


def numbered(shape: Sequence[int]) -> np.ndarray:
    """Elements 1, 2, ...: 0 and negative numbers are free for padding."""
    return np.arange(1, prod(shape) + 1).reshape(shape)


class Symbol:
    """An index entry that writes down what is done to it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _write(self, operator: str, other: object) -> "Symbol":
        return Symbol(f"({self.text}{operator}{other.text if isinstance(other, Symbol) else other})")

    def __add__(self, other: object) -> "Symbol":
        return self._write("+", other)

    def __mul__(self, other: object) -> "Symbol":
        return self._write("*", other)

    def __floordiv__(self, other: object) -> "Symbol":
        return self._write("//", other)

    def __mod__(self, other: object) -> "Symbol":
        return self._write("%", other)


def expressions(src: str, dst: str) -> list[str]:
    """What map_index builds, over the dimensions of ``src`` named by their text."""
    index = [Symbol(str(axis)) for axis in Layout.parse(src).axes]
    return [
        entry.text if isinstance(entry, Symbol) else str(entry)
        for entry in index_map(src, dst).map_index(index)
    ]


def message(call: object, *arguments: object, **options: object) -> str:
    with pytest.raises(LayoutError) as caught:
        call(*arguments, **options)  # type: ignore[operator]
    text = str(caught.value)
    assert "\n" not in text
    return text


# Grammar


def test_parts_of_a_split_layout() -> None:
    layout = Layout.parse("OIHW4i16o4i")
    assert layout.axes == (
        Axis("O"),
        Axis("I"),
        Axis("H"),
        Axis("W"),
        Axis("I", 4),
        Axis("O", 16),
        Axis("I", 4),
    )
    assert layout.rank == 7
    assert layout.primal == ("O", "I", "H", "W")
    assert str(layout.primal_layout) == "OIHW"
    assert (layout.block("I"), layout.block("O"), layout.block("H")) == (16, 16, 1)
    assert layout.blocked_axes == ("O", "I")
    assert layout.is_blocked and not layout.is_any and not layout.is_plain


def test_alignment() -> None:
    layout = Layout.parse("NC[a=32]HW")
    assert layout.rank == 4
    assert layout.alignment("C") == 32 and layout.alignment("H") == 1
    assert not layout.is_blocked and not layout.is_plain
    assert layout.shape((1, 40, 5, 6), "NCHW") == (1, 64, 5, 6)
    assert str(layout.primal_layout) == "NCHW"
    assert layout.without_blocks is layout
    assert str(Layout.parse("NC[a=32]HW8w").without_blocks) == "NC[a=32]HW"


def test_an_alignment_of_one_is_none() -> None:
    assert Layout.parse("NC[a=1]HW") == Layout.parse("NCHW")
    assert str(Layout.parse("NC[a=1]HW16c")) == "NCHW16c"


def test_a_block_of_one_is_a_dimension() -> None:
    layout = Layout.parse("NCHW1c")
    assert layout != Layout.parse("NCHW")
    assert layout.is_blocked and layout.blocked_axes == ("C",) and layout.block("C") == 1
    assert layout.shape((1, 3, 5, 6), "NCHW") == (1, 3, 5, 6, 1)


def test_any() -> None:
    layout = Layout.parse("*")
    assert layout.is_any and not layout.is_plain and not layout.is_blocked
    assert str(layout) == "*" and layout == Layout.of("*") and layout != Layout.generic(0)
    assert layout.primal_layout == layout.without_blocks == layout.relabel({"N": "A"}) == layout
    expected = "layout '*': any layout has no axes; give a definite one, e.g. 'NCHW'"
    assert message(lambda: layout.rank) == expected
    assert message(layout.block, "C") == expected
    assert message(layout.shape, (), "") == expected
    assert message(layout.drop, ()) == expected
    assert message(index_map, "NCHW", "*") == expected
    assert message(from_dim_order, (), "*") == expected
    assert message(equivalent_memory, "*", "*", (), "*") == expected


@quick
@given(layouts("NCHWD"))
def test_text_round_trip(layout: Layout) -> None:
    again = Layout.parse(str(layout))
    assert again == layout and hash(again) == hash(layout) and again.axes == layout.axes
    assert again is Layout.parse(str(layout)), "parsed once"
    assert Layout.of(layout) is layout and Layout.of(str(layout)) == layout
    assert pickle.loads(pickle.dumps(layout)) == copy.deepcopy(layout) == layout
    assert len({layout, again}) == 1


@quick
@given(st.text(alphabet="NCHWnchw[]a=0123*!\n é", max_size=12))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    try:
        layout = Layout.parse(text)
    except LayoutError as error:
        assert "\n" not in str(error) and str(error).startswith("layout ")
    else:
        assert Layout.parse(str(layout)) == layout


def test_values_are_immutable_and_differ_from_their_text() -> None:
    layout = Layout.parse("NCHW")
    with pytest.raises(AttributeError):
        layout.axes = ()  # type: ignore[misc]
    assert layout != "NCHW"
    assert repr(layout) == "Layout('NCHW')"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "NCWH!",
            "unexpected character '!' at position 4; write axes as capital letters and blocks as a number "
            "and a small letter, e.g. 'NCHW16c'",
        ),
        (
            "NC HW",
            "unexpected character ' ' at position 2; write axes as capital letters and blocks as a number "
            "and a small letter, e.g. 'NCHW16c'",
        ),
        (
            "NCÉ",
            "unexpected character 'É' at position 2; write axes as capital letters and blocks as a number "
            "and a small letter, e.g. 'NCHW16c'",
        ),
        (
            "NC\n",
            "unexpected character '\\n' at position 2; write axes as capital letters and blocks as a number "
            "and a small letter, e.g. 'NCHW16c'",
        ),
        ("", "it is empty; write one capital letter per axis, e.g. 'NCHW', or '*' for any layout"),
        ("default", "this is Relay's word for no layout; write one such as 'NCHW', or '*' for any layout"),
        ("__undef__", "this is Relay's word for no layout; write one such as 'NCHW', or '*' for any layout"),
        ("NCHC", "axis 'C' at position 3 is already at position 1; write each capital letter once"),
        ("NHW16c", "the block of 'c' at position 3 has no axis 'C' to split; add the capital letter 'C'"),
        ("NCHW0c", "the number 0 at position 4 is zero; write 1 or more"),
        ("NC[a=0]HW", "the number 0 at position 5 is zero; write 1 or more"),
        ("NCHW016c", "the number at position 4 starts with a zero; write it without"),
        ("NCHW2147483648c", "the number at position 4 is too large; write at most 2147483647"),
        (
            "NCHWc",
            "the small letter 'c' at position 4 has no number; "
            "write the size of the block before it, e.g. '16c'",
        ),
        (
            "NCHW16",
            "the number at position 4 is followed by nothing; "
            "write the small letter of the axis that it splits, e.g. '16c'",
        ),
        (
            "N16CHW",
            "the number at position 1 is followed by 'C'; "
            "write the small letter of the axis that it splits, e.g. '16c'",
        ),
        ("N*", "'*' at position 1 is not alone; write '*' for any layout, or name every axis"),
        ("**", "'*' at position 0 is not alone; write '*' for any layout, or name every axis"),
        (
            "NC[a=]HW",
            "no alignment can be read at position 2; "
            "write '[a=NUMBER]' directly after a capital letter, e.g. 'NC[a=32]HW'",
        ),
        (
            "NCHW16c[a=32]",
            "no alignment can be read at position 7; "
            "write '[a=NUMBER]' directly after a capital letter, e.g. 'NC[a=32]HW'",
        ),
        (
            "NC[a=32]HW16c",
            "axis 'C' has both an alignment at position 2 and a block at position 10; keep one of them",
        ),
    ],
)
def test_errors_of_the_grammar(text: str, problem: str) -> None:
    assert message(Layout.parse, text) == f"layout {text!r}: {problem}"


def test_hostile_texts_get_a_short_answer() -> None:
    assert "too large" in message(Layout.parse, "N" + "9" * 10_000 + "n")
    assert len(message(Layout.parse, "!" * 10_000)) < 250
    assert Layout.parse(f"C{LARGEST_NUMBER}c").block("C") == LARGEST_NUMBER
    assert message(Layout.parse, 7) == "layout 7: not a text; write a layout such as 'NCHW'"


def test_generic() -> None:
    assert str(Layout.generic(4)) == "ABCD"
    assert Layout.generic(26).rank == 26
    scalar = Layout.generic(0)
    assert str(scalar) == "" and scalar.rank == 0 and scalar.is_plain and scalar == Layout.generic(0)
    assert scalar.shape((), scalar) == ()
    assert message(Layout.generic, 27) == "rank 27: no letters for it; a layout has 0 to 26 axes"
    assert message(Layout.generic, -1) == "rank -1: no letters for it; a layout has 0 to 26 axes"


# Changed layouts


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
    assert message(Layout.parse("NCHW").relabel, {"N": "C"}) == (
        "layout 'NCHW': axes 'N' and 'C' both relabelled 'C'; give each axis a letter of its own"
    )
    for bad in ("c", "", "AB"):
        assert message(Layout.parse("NCHW").relabel, {"N": bad}) == (
            f"layout 'NCHW': axis 'N' relabelled {bad!r}; give a capital letter"
        )


def test_project_and_drop() -> None:
    layout = Layout.parse("NC[a=8]HW16w4h")
    assert str(layout.drop("W")) == "NC[a=8]H4h"
    assert str(layout.drop(["C", "H"])) == "NW16w"
    assert str(layout.project({"H", "W"})) == "HW16w4h"
    assert layout.drop(()) == layout
    assert layout.drop("NCHW") == layout.project("") == Layout.generic(0)
    assert (
        message(layout.drop, "NK") == "layout 'NC[a=8]HW16w4h': it has no axis 'K'; its axes are N, C, H, W"
    )


@quick
@given(layouts("NCHW"), st.sets(st.sampled_from("NCHW")), st.permutations("NCHW"))
def test_drop_is_the_complement_of_project_and_relabel_undoes(
    layout: Layout, axes: set[str], letters: list[str]
) -> None:
    assert layout.drop(axes) == layout.project(set("NCHW") - axes)
    mapping = dict(zip("NCHW", letters, strict=True))
    assert layout.relabel(mapping).relabel({new: old for old, new in mapping.items()}) == layout


# Shapes


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


# Index maps


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
def test_compose_and_inverse(case: tuple[list[Layout], str, list[int]], data: st.DataObject) -> None:
    (first, second, third), order, shape = case
    logical = {name: data.draw(st.integers(0, extent - 1)) for name, extent in zip(order, shape, strict=True)}
    index = reference_index(first, logical)
    there, onward = index_map(first, second), index_map(second, third)
    assert there.compose(onward).map_index(index) == onward.map_index(there.map_index(index))
    assert there.compose(there.inverse()).is_identity
    assert there.compose(there.inverse()).map_index(index) == index
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
    assert message(index_map("NC", "CN").compose, index_map("NC", "NC8c")) == (
        "'NC -> CN' then 'NC -> NC8c': the second must start from 'CN'"
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


# Arrays


@quick
@given(cases(2), st.sampled_from([0, -1]))
def test_apply_agrees_with_moving_each_element(
    case: tuple[list[Layout], str, list[int]], pad_value: int
) -> None:
    (src, dst), order, shape = case
    logical = numbered(shape)
    extents = [shape[order.index(name)] for name in src.primal]
    array = place(logical, order, src, -7)
    result = apply(array, src, dst, logical_shape=extents, pad_value=pad_value)
    expected = place(logical, order, dst, pad_value)
    assert result.shape == expected.shape and result.dtype == array.dtype and result.flags.c_contiguous
    assert np.array_equal(result, expected)
    # And through map_index, which is written apart from apply.
    transform = index_map(src, dst)
    for index in itertools.islice(np.ndindex(*shape), 20):
        source = reference_index(src, dict(zip(order, map(int, index), strict=True)))
        assert result[transform.map_index(source)] == array[source]


@quick
@given(cases(2))
def test_apply_there_and_back(case: tuple[list[Layout], str, list[int]]) -> None:
    (src, dst), order, shape = case
    array = place(numbered(shape), order, src, 0)
    extents = [shape[order.index(name)] for name in src.primal]
    there = apply(array, src, dst, logical_shape=extents)
    back = apply(there, dst, src, logical_shape=[shape[order.index(name)] for name in dst.primal])
    assert np.array_equal(back, array)


@quick
@given(cases(2))
def test_apply_without_logical_shape_keeps_the_padding_as_data(
    case: tuple[list[Layout], str, list[int]],
) -> None:
    (src, dst), order, shape = case
    array = numbered(src.shape(shape, order))
    padded = src.logical_shape(array.shape, order)
    result = apply(array, src, dst, pad_value=-1)
    assert result.shape == dst.shape(padded, order)
    assert sorted(result[result != -1].tolist()) == array.ravel().tolist()


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
    assert message(apply, array, "NCHW16c", "NCHW", logical_shape=(1, 3, 3, 4)) == (
        "logical shape (1, 3, 3, 4): in layout 'NCHW16c' it has shape (1, 1, 3, 4, 16), "
        "but the array has (1, 2, 3, 4, 16)"
    )
    assert message(apply, array, "NCHW16c", "NCHW", logical_shape=(1, 3)) == (
        "shape (1, 3): it has 2 dimensions but order 'NCHW' has 4; give one extent per axis"
    )


# Equal memory


def same_buffer(src: Layout, dst: Layout, shape: Sequence[int], order: str) -> bool:
    """The definition: the same bytes, the padding being told from the elements."""
    first, second = (place(numbered(shape), order, layout, 0).ravel() for layout in (src, dst))
    return np.array_equal(first, second)


@pytest.mark.parametrize(
    ("src", "dst", "shape", "expected"),
    [
        ("NHWC", "NCHW", (2, 48, 1, 1), True),
        ("NHWC", "NCHW16c", (2, 48, 1, 1), True),
        ("NCHW", "NCHW16c", (2, 48, 1, 1), True),
        ("NCHW", "NCHW16c", (2, 47, 1, 1), False),
        ("NHWC", "NCHW16c", (2, 16, 5, 7), True),
        ("NHWC", "NCHW16c", (2, 32, 5, 7), False),
        ("NCHW", "NHWC", (1, 3, 1, 5), False),
        ("NCHW", "NHWC", (9, 1, 3, 5), True),
        ("NCHW4c4c", "NCHW16c", (1, 5, 3, 5), True),
        ("NC[a=32]HW", "NCHW32c", (1, 3, 1, 1), True),
        ("NC[a=32]HW", "NCHW32c", (1, 3, 2, 1), False),
        ("NC[a=32]HW", "NC[a=16]HW", (1, 3, 1, 1), False),
        ("NC[a=32]HW", "NC[a=16]HW", (1, 20, 5, 5), True),
        ("NC[a=4]HW", "NCHW", (1, 8, 5, 5), True),
        ("N[a=4]CHW", "NC[a=16]HW", (1, 4, 1, 1), True),
        ("NCHW", "NHWC8c", (0, 3, 4, 5), True),
        ("NC1cHW", "NCHW", (2, 3, 4, 5), True),
        ("NCHW6c", "NCHW4c", (1, 12, 1, 1), True),
        ("NCHW6c", "NCHW4c", (1, 12, 2, 1), False),
        ("NCHW16c", "NCHW16c", (1, 3, 5, 5), True),
    ],
)
def test_equivalent_memory_by_example(src: str, dst: str, shape: tuple[int, ...], expected: bool) -> None:
    assert equivalent_memory(src, dst, shape, "NCHW") is expected
    assert equivalent_memory(dst, src, shape, "NCHW") is expected
    assert same_buffer(Layout.parse(src), Layout.parse(dst), shape, "NCHW") is expected


def test_equivalent_memory_agrees_with_the_definition_on_all_small_cases() -> None:
    texts = ["NC", "CN", "NC2c", "NC4c", "NC2c2c", "CN4c", "C2cN", "4cNC", "NC3c", "NC6c", "NC1c", "N2nC"]
    texts += ["N2nC2c", "NC[a=2]", "NC[a=4]", "N[a=2]C", "C[a=4]N", "C4cN[a=4]", "N2c2nC", "CN2n2c"]
    all_layouts = [Layout.parse(text) for text in texts]
    agreed = {True: 0, False: 0}
    for shape in itertools.product(range(6), (0, 1, 2, 3, 4, 6, 8, 12)):
        buffers = {layout: place(numbered(shape), "NC", layout, 0).ravel() for layout in all_layouts}
        for src, dst in itertools.combinations_with_replacement(all_layouts, 2):
            expected = np.array_equal(buffers[src], buffers[dst])
            assert equivalent_memory(src, dst, shape, "NC") is expected, (src, dst, shape)
            agreed[expected] += 1
    assert min(agreed.values()) > 1000


@settings(quick, max_examples=300)
@given(cases(2, largest=8))
def test_equivalent_memory_agrees_with_the_definition(case: tuple[list[Layout], str, list[int]]) -> None:
    (src, dst), order, shape = case
    # Unit extents are where layouts coincide; the plain draw rarely has enough of them.
    shapes = [
        shape,
        *([1 if i != kept else extent for i, extent in enumerate(shape)] for kept in range(len(shape))),
    ]
    for extents in shapes:
        assert equivalent_memory(src, dst, extents, order) is same_buffer(src, dst, extents, order)
    assert equivalent_memory(src, src, shape, order)


@quick
@given(cases(2, smallest=1), st.data())
def test_equivalent_memory_of_symbolic_extents_holds_for_their_values(
    case: tuple[list[Layout], str, list[int]], data: st.DataObject
) -> None:
    (src, dst), order, shape = case
    free = [n for n in order if all(max(side.block(n), side.alignment(n)) == 1 for side in (src, dst))]
    assume(free)
    symbolic = [Symbol(name) if name in free else extent for name, extent in zip(order, shape, strict=True)]
    if equivalent_memory(src, dst, symbolic, order):
        values = [
            data.draw(st.integers(0, 5)) if name in free else e for name, e in zip(order, shape, strict=True)
        ]
        assert same_buffer(src, dst, values, order)


def test_equivalent_memory_of_a_symbolic_batch() -> None:
    assert equivalent_memory("NCHW", "NHWC", (Symbol("n"), 8, 1, 1), "NCHW")
    assert equivalent_memory("NCHW", "NHWC4c", (Symbol("n"), 8, 1, 1), "NCHW")
    assert not equivalent_memory("NCHW", "CNHW", (Symbol("n"), 8, 1, 1), "NCHW")
    assert equivalent_memory("NCHW", "CNHW", (Symbol("n"), 1, 2, Symbol("w")), "NCHW")


# dim_order


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
