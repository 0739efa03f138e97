"""Steps of an elimination with the largest pivots, as statements."""

from typing import Any

from tvm.script.ir_builder import tirx as T


def find_pivot(pivot: Any, left: Any, matrix: Any, step: Any, size: Any) -> None:
    """Set ``pivot[0]`` to the row of a matrix, from ``step`` on, whose element in that column is the largest.

    ``left`` (M, N, N) has what is left of matrices of ``size`` N.
    """
    pivot[0] = step.astype("int64")
    with T.serial(step + 1, size) as row:
        largest = T.abs(left[matrix, pivot[0], step])
        with T.If(T.abs(left[matrix, row, step]) > largest), T.Then():
            pivot[0] = row.astype("int64")


def swap_with_pivot(kept: Any, pivot: Any, rows: Any, matrix: Any, step: Any, column: Any) -> None:
    """Let the row ``step`` and that of the pivot change places in one ``column`` of ``rows`` (M, N, K)."""
    kept[0] = rows[matrix, step, column]
    rows[matrix, step, column] = rows[matrix, pivot[0], column]
    rows[matrix, pivot[0], column] = kept[0]
