"""Choices that are settled before a function runs."""

from tvm import te, tirx

from topi_ext.schedule.conditionals import without_settled
from topi_ext.schedule.inlining import inlined


def number(value: int) -> tirx.IntImm:
    return tirx.IntImm("int64", value)


def test_comparisons_of_numbers_choose() -> None:
    left, right = tirx.Var("left", "int64"), tirx.Var("right", "int64")
    inner = tirx.Select(tirx.EQ(number(1), number(0)), left, right)
    chosen = tirx.if_then_else(tirx.LE(number(1), number(0)), left, inner)
    assert without_settled(chosen).same_as(right)


def test_what_depends_on_variables_stays() -> None:
    place = tirx.Var("place", "int64")
    value = tirx.Select(tirx.LT(place, number(3)), place, number(0))
    assert without_settled(value).same_as(value)


def test_an_element_of_a_known_tensor_is_read_from_it_alone() -> None:
    """A place is the second of two columns that a concatenation puts side by side."""
    first, second = (te.placeholder((5, 1), "int64", name) for name in ("first", "second"))
    data = te.placeholder((9,), "float32", "data")
    places = te.compute(
        (5, 2),
        lambda row, column: tirx.if_then_else(column >= 1, second[row, 0], first[row, 0]),
        name="places",
    )
    found = te.compute((5,), lambda row: data[places[row, number(1)]], name="found")
    func = te.create_prim_func([first, second, data, found], "int64")
    text = inlined(func).script()
    assert "data[second[v_row, T.int64(0)]]" in text and "if_then_else" not in text
