"""Extents that are numbers, and that are not."""

from tvm import tirx

from topi_ext.extents import size_of


def test_the_size_of_static_extents_alone_is_known() -> None:
    assert size_of([2, tirx.IntImm("int64", 3), 4]) == 24
    assert size_of([]) == 1
    assert size_of([2, 0]) == 0
    assert size_of([2, tirx.Var("n", "int64")]) is None
