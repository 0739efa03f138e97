"""Text in columns."""

from relay_layout.columns import columns

ROWS = [["name", "ms"], ["conv", "12.5"], ["", "3"]]


def test_columns_begin_below_each_other() -> None:
    assert columns(ROWS) == "name  ms\nconv  12.5\n      3"


def test_columns_of_numbers_end_below_each_other() -> None:
    assert columns(ROWS, right=(1,)) == "name    ms\nconv  12.5\n         3"
