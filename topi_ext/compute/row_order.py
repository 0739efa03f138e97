"""The order of the rows of a matrix by their first numbers that differ, by a merge sort from pairs up."""

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written


def rising_rows(data: te.Tensor) -> te.Tensor:
    """Places of the rows of ``data`` (rows, columns), int64 (rows,), the least row first.

    Of equal rows the first comes first.
    """
    rows, columns = data.shape

    def order(data: Any, places: Any, other: Any) -> None:
        width = variable("int64")
        with T.serial(0, rows) as row:
            places[row] = row.astype("int64")
        width[0] = T.int64(1)
        with T.While(width[0] < rows):
            with T.serial(0, tirx.floordiv(rows + 2 * width[0] - 1, 2 * width[0])) as pair:
                _merge(data, columns, places, other, pair.astype("int64") * 2 * width[0], width[0], rows)
            with T.serial(0, rows) as row:
                places[row] = other[row]
            width[0] = 2 * width[0]

    outputs = [((rows,), "int64"), ((rows,), "int64")]
    return written("rising_rows", [data], outputs, order)[0]


def _merge(data: Any, columns: Any, places: Any, other: Any, begin: Any, width: Any, rows: Any) -> None:
    """Statements that put ``width`` ordered places from ``begin`` on, and as many behind, into ``other``."""
    left, right, middle, end, takes_right = (variable("int64") for _ in range(5))
    left[0] = begin
    middle[0] = te.min(begin + width, rows)
    right[0] = middle[0]
    end[0] = te.min(begin + 2 * width, rows)
    with T.serial(0, end[0] - begin) as rank:
        takes_right[0] = tirx.Select(left[0] >= middle[0], T.int64(1), T.int64(0))
        with T.If(tirx.all(left[0] < middle[0], right[0] < end[0])), T.Then():
            _is_less(data, columns, places[right[0]], places[left[0]], takes_right)
        with T.If(takes_right[0] != 0):
            with T.Then():
                other[begin + rank] = places[right[0]]
                right[0] = right[0] + 1
            with T.Else():
                other[begin + rank] = places[left[0]]
                left[0] = left[0] + 1


def _is_less(data: Any, columns: Any, row: Any, than: Any, answer: Any) -> None:
    """Statements that make ``answer`` 1 where one row comes before another; what it is else, it stays."""
    column, one, another = variable("int64"), variable("int64"), variable("int64")
    column[0], one[0], another[0] = T.int64(0), row, than
    with T.While(tirx.all(column[0] < columns, data[one[0], column[0]] == data[another[0], column[0]])):
        column[0] = column[0] + 1
    with T.If(tirx.all(column[0] < columns, data[one[0], column[0]] < data[another[0], column[0]])), T.Then():
        answer[0] = T.int64(1)
