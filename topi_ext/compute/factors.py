"""Triangular factors of square matrices, and what is solved by them."""

from collections.abc import Callable
from typing import Any

from tvm import te
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written
from topi_ext.compute.pivots import find_pivot, swap_with_pivot


def lower_upper_factors(data: te.Tensor) -> list[te.Tensor]:
    """Both factors, one below the other's diagonal, (M, N, N) of matrices (M, N, N) of floats; int32 (M, N),
    the rows with which rows change places in turn; and int32 (M), the first pivot that is zero, or 0.

    Rows and pivots are counted from one. The lower factor has ones on its diagonal, which are left out.
    """
    matrices, size, _ = data.shape

    def body(data: Any, left: Any, rows: Any, singular: Any) -> None:
        pivot, kept = variable("int64"), variable(data.dtype)
        with T.serial(0, matrices) as matrix:
            with T.serial(0, size) as row, T.serial(0, size) as column:
                left[matrix, row, column] = data[matrix, row, column]
            singular[matrix] = T.int32(0)
            with T.serial(0, size) as step:
                find_pivot(pivot, left, matrix, step, size)
                rows[matrix, step] = (pivot[0] + 1).astype("int32")
                with T.If(pivot[0] != step.astype("int64")), T.Then(), T.serial(0, size) as column:
                    swap_with_pivot(kept, pivot, left, matrix, step, column)
                with T.If(left[matrix, step, step] == T.cast(0, data.dtype)):
                    with T.Then(), T.If(singular[matrix] == 0), T.Then():
                        singular[matrix] = (step + 1).astype("int32")
                    with T.Else(), T.serial(step + 1, size) as row:
                        left[matrix, row, step] = left[matrix, row, step] / left[matrix, step, step]
                        with T.serial(step + 1, size) as column:
                            left[matrix, row, column] -= left[matrix, row, step] * left[matrix, step, column]

    outputs = [(data.shape, data.dtype), ((matrices, size), "int32"), ((matrices,), "int32")]
    return written("lower_upper_factors", [data], outputs, body)


def solutions_of_factors(factors: te.Tensor, rows: te.Tensor, columns: te.Tensor) -> te.Tensor:
    """The X (M, N, K) of A X = ``columns`` (M, N, K), for matrices A of which :func:`lower_upper_factors`
    gives ``factors`` and ``rows``."""

    def body(factors: Any, rows: Any, columns: Any, result: Any) -> None:
        matrices, size, count = columns.shape
        kept, other = variable(columns.dtype), variable("int64")
        with T.serial(0, matrices) as matrix, T.serial(0, count) as column:
            with T.serial(0, size) as row:
                result[matrix, row, column] = columns[matrix, row, column]
            with T.serial(0, size) as row:
                other[0] = rows[matrix, row].astype("int64") - 1
                swap_with_pivot(kept, other, result, matrix, row, column)
            with T.serial(0, size) as row, T.serial(0, row) as before:
                result[matrix, row, column] -= factors[matrix, row, before] * result[matrix, before, column]
            with T.serial(0, size) as step:
                row = size - 1 - step
                with T.serial(row + 1, size) as after:
                    result[matrix, row, column] -= factors[matrix, row, after] * result[matrix, after, column]
                result[matrix, row, column] = result[matrix, row, column] / factors[matrix, row, row]

    return written("solutions_of_factors", [factors, rows, columns], [(columns.shape, columns.dtype)], body)


def triangular_solutions(upper: bool, unit: bool) -> Callable[[te.Tensor, te.Tensor], te.Tensor]:
    """The X (M, N, K) of T X = columns (M, N, K), with T the upper or lower triangles of matrices (M, N, N).

    Elements of the other triangles are not read; those of the diagonals are ones where they are ``unit``.
    """

    def triangular_solutions(matrices: te.Tensor, columns: te.Tensor) -> te.Tensor:
        count, size, width = columns.shape

        def body(matrices: Any, columns: Any, result: Any) -> None:
            with T.serial(0, count) as matrix, T.serial(0, size) as step, T.serial(0, width) as column:
                row = size - 1 - step if upper else step
                result[matrix, row, column] = columns[matrix, row, column]
                with T.serial(row + 1 if upper else 0, size if upper else row) as other:
                    result[matrix, row, column] -= (
                        matrices[matrix, row, other] * result[matrix, other, column]
                    )
                if not unit:
                    result[matrix, row, column] = result[matrix, row, column] / matrices[matrix, row, row]

        outputs = [(columns.shape, columns.dtype)]
        return written("triangular_solutions", [matrices, columns], outputs, body)

    return triangular_solutions


def cholesky_factors(data: te.Tensor) -> list[te.Tensor]:
    """The lower factor L (M, N, N) of matrices L times its transpose (M, N, N), of which only lower triangles
    are read; and int32 (M), the first row, counted from one, where a matrix is not positive definite, or 0.

    Such a matrix has NaN.
    """
    matrices, size, _ = data.shape

    def body(data: Any, result: Any, indefinite: Any) -> None:
        with T.serial(0, matrices) as matrix:
            indefinite[matrix] = T.int32(0)
        with T.serial(0, matrices) as matrix, T.serial(0, size) as row:
            with T.serial(0, size) as column:
                result[matrix, row, column] = T.if_then_else(
                    column <= row, data[matrix, row, column], T.cast(0, data.dtype)
                )
            with T.serial(0, row) as column:
                with T.serial(0, column) as before:
                    result[matrix, row, column] -= (
                        result[matrix, row, before] * result[matrix, column, before]
                    )
                result[matrix, row, column] = result[matrix, row, column] / result[matrix, column, column]
            with T.serial(0, row) as before:
                result[matrix, row, row] -= result[matrix, row, before] * result[matrix, row, before]
            is_positive = result[matrix, row, row] > T.cast(0, data.dtype)
            with T.If(T.And(indefinite[matrix] == 0, T.Not(is_positive))), T.Then():
                indefinite[matrix] = (row + 1).astype("int32")
            result[matrix, row, row] = T.sqrt(result[matrix, row, row])

    outputs = [(data.shape, data.dtype), ((matrices,), "int32")]
    return written("cholesky_factors", [data], outputs, body)
