"""The text of layouts: what is read, what is refused, and how it is written again."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_layout.errors import LayoutError
from relay_layout.layout import Axis, Layout
from relay_layout.layout.grammar import LARGEST_NUMBER
from relay_layout.layout.transform import equivalent_memory, from_dim_order, index_map
from tests.relay_layout.layout.layout_reference import layouts, message, quick


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
    assert layout.primal_layout == layout.relabel({"N": "A"}) == layout
    expected = "layout '*': any layout has no axes; give a definite one, e.g. 'NCHW'"
    assert message(lambda: layout.rank) == expected
    assert message(layout.block, "C") == expected
    assert message(layout.shape, (), "") == expected
    assert message(layout.project, ()) == expected
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
        ("nhwc", "axes are capital letters; write 'NHWC'"),
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
