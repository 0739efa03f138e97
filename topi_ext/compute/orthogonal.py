"""Matrices by orthogonal ones: factors by reflections, and columns that rotations make orthogonal."""

from typing import Any

from tvm import te
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written

_SWEEPS = 30
"""After so many rotations of each pair of columns they stay as they are; mostly ten are enough."""

_ALIKE = 1e-15
"""The cosine of an angle that is a right one to double precision."""


def orthogonal_factors(data: te.Tensor) -> list[te.Tensor]:
    """Q (M, R, R), whose columns are orthogonal and of length 1, and the upper triangles (M, R, C) that Q
    multiplies to matrices (M, R, C) of floats.

    By Householder's reflections, with the signs that LAPACK has.
    """
    matrices, rows, columns = data.shape
    dtype = data.dtype

    def body(data: Any, left: Any, upper: Any) -> None:
        tail, first, scale, sum_ = (variable(dtype) for _ in range(4))
        zero, one = T.cast(0, dtype), T.cast(1, dtype)

        def reflect(matrix: Any, step: Any, target: Any, at: Any, is_row: bool) -> None:
            """A column of ``target``, or a row, less its part along the reflection below ``step``."""

            def place(row: Any) -> tuple[Any, ...]:
                return (matrix, at, row) if is_row else (matrix, row, at)

            sum_[0] = target[place(step)]
            with T.serial(step + 1, rows) as row:
                sum_[0] += upper[matrix, row, step] * target[place(row)]
            sum_[0] *= scale[0]
            target[place(step)] -= sum_[0]
            with T.serial(step + 1, rows) as row:
                target[place(row)] -= sum_[0] * upper[matrix, row, step]

        with T.serial(0, matrices) as matrix:
            with T.serial(0, rows) as row, T.serial(0, columns) as column:
                upper[matrix, row, column] = data[matrix, row, column]
            with T.serial(0, rows) as row, T.serial(0, rows) as column:
                left[matrix, row, column] = T.if_then_else(row == column, one, zero)
            with T.serial(0, T.min(rows, columns)) as step:
                tail[0] = zero
                with T.serial(step + 1, rows) as row:
                    tail[0] += upper[matrix, row, step] * upper[matrix, row, step]
                with T.If(tail[0] > zero), T.Then():
                    first[0] = upper[matrix, step, step]
                    tail[0] = T.sqrt(first[0] * first[0] + tail[0])
                    tail[0] = T.if_then_else(first[0] > zero, zero - tail[0], tail[0])
                    scale[0] = (tail[0] - first[0]) / tail[0]
                    with T.serial(step + 1, rows) as row:
                        upper[matrix, row, step] = upper[matrix, row, step] / (first[0] - tail[0])
                    upper[matrix, step, step] = tail[0]
                    with T.serial(step + 1, columns) as column:
                        reflect(matrix, step, upper, column, is_row=False)
                    with T.serial(0, rows) as row:
                        reflect(matrix, step, left, row, is_row=True)
                    with T.serial(step + 1, rows) as row:
                        upper[matrix, row, step] = zero

    outputs = [((matrices, rows, rows), dtype), (data.shape, dtype)]
    return written("orthogonal_factors", [data], outputs, body)


def orthogonal_columns(data: te.Tensor) -> list[te.Tensor]:
    """The rows A V (M, C, R), one for each column of matrices A (M, R, C) of float64, orthogonal and longest
    first; their lengths (M, C); and the rows of V (M, C, C), which are orthogonal and of length 1.

    By rotations of each two columns, as Jacobi and Hestenes have them: lengths are A's singular values.
    """
    matrices, rows, columns = data.shape
    dtype = data.dtype

    def body(data: Any, rotated: Any, lengths: Any, turns: Any) -> None:
        first, second, product, tangent, cosine, kept = (variable(dtype) for _ in range(6))
        changed, longest = variable("int32"), variable("int64")
        zero, one = T.cast(0, dtype), T.cast(1, dtype)

        def turn(target: Any, matrix: Any, left: Any, right: Any, count: Any) -> None:
            with T.serial(0, count) as at:
                kept[0] = target[matrix, left, at]
                target[matrix, left, at] = cosine[0] * (kept[0] - tangent[0] * target[matrix, right, at])
                target[matrix, right, at] = cosine[0] * (tangent[0] * kept[0] + target[matrix, right, at])

        def swap(target: Any, matrix: Any, left: Any, right: Any, count: Any) -> None:
            with T.serial(0, count) as at:
                kept[0] = target[matrix, left, at]
                target[matrix, left, at] = target[matrix, right, at]
                target[matrix, right, at] = kept[0]

        with T.serial(0, matrices) as matrix:
            with T.serial(0, columns) as column, T.serial(0, rows) as row:
                rotated[matrix, column, row] = data[matrix, row, column]
            with T.serial(0, columns) as column, T.serial(0, columns) as other:
                turns[matrix, column, other] = T.if_then_else(column == other, one, zero)
            changed[0] = 1
            with T.serial(0, _SWEEPS), T.If(changed[0] > 0), T.Then():
                changed[0] = 0
                with T.serial(0, columns) as left, T.serial(left + 1, columns) as right:
                    first[0], second[0], product[0] = zero, zero, zero
                    with T.serial(0, rows) as row:
                        first[0] += rotated[matrix, left, row] * rotated[matrix, left, row]
                        second[0] += rotated[matrix, right, row] * rotated[matrix, right, row]
                        product[0] += rotated[matrix, left, row] * rotated[matrix, right, row]
                    limit = T.cast(_ALIKE, dtype) * T.sqrt(first[0]) * T.sqrt(second[0])
                    with T.If(T.abs(product[0]) > limit), T.Then():
                        changed[0] = 1
                        # The cotangent of twice the angle, and of both tangents the lesser one.
                        kept[0] = (second[0] - first[0]) / (product[0] * 2)
                        tangent[0] = one / (T.abs(kept[0]) + T.sqrt(one + kept[0] * kept[0]))
                        tangent[0] = T.if_then_else(kept[0] < zero, zero - tangent[0], tangent[0])
                        cosine[0] = one / T.sqrt(one + tangent[0] * tangent[0])
                        turn(rotated, matrix, left, right, rows)
                        turn(turns, matrix, left, right, columns)
            with T.serial(0, columns) as column:
                lengths[matrix, column] = zero
                with T.serial(0, rows) as row:
                    lengths[matrix, column] += rotated[matrix, column, row] * rotated[matrix, column, row]
                lengths[matrix, column] = T.sqrt(lengths[matrix, column])
            with T.serial(0, columns) as column:
                longest[0] = column.astype("int64")
                with T.serial(column + 1, columns) as other:
                    is_longer = lengths[matrix, other] > lengths[matrix, longest[0]]
                    with T.If(is_longer), T.Then():
                        longest[0] = other.astype("int64")
                with T.If(longest[0] != column.astype("int64")), T.Then():
                    kept[0] = lengths[matrix, column]
                    lengths[matrix, column] = lengths[matrix, longest[0]]
                    lengths[matrix, longest[0]] = kept[0]
                    swap(rotated, matrix, column, longest[0], rows)
                    swap(turns, matrix, column, longest[0], columns)

    extents = ((matrices, columns, rows), (matrices, columns), (matrices, columns, columns))
    return written("orthogonal_columns", [data], [(extent, dtype) for extent in extents], body)
