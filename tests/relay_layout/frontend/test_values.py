"""How messages write shapes."""

from tvm import tirx

from relay_layout.frontend.values import written


def test_long_extents_are_cut() -> None:
    size = tirx.Var("s", "int64")
    extent = size
    for least in (20, 30, 40, 50):
        extent = tirx.max(extent - least, size // least) // 2
    assert written([extent, 3, size + 1]) == "[T.max(T.max(...) // 2 - 50, s // 50) // 2,3,s + 1]"
