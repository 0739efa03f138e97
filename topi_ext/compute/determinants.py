"""Determinants of square matrices, by elimination with the largest pivots."""

from collections.abc import Callable
from typing import Any

from tvm import te
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written
from topi_ext.compute.pivots import find_pivot, swap_with_pivot


def determinants(data: te.Tensor) -> list[te.Tensor]:
    """The determinants (M) of matrices (M, N, N) of floats, and what is left of these.

    A matrix without a pivot that is not zero has zero for its determinant.
    """

    def body(data: Any, result: Any, left: Any) -> None:
        def start(matrix: Any) -> None:
            result[matrix] = T.cast(1, data.dtype)

        def swap(matrix: Any) -> None:
            result[matrix] = -result[matrix]

        def multiply(matrix: Any, pivot: Any) -> None:
            result[matrix] = result[matrix] * pivot

        _eliminate(data, left, start, swap, multiply)

    outputs = [(data.shape[:1], data.dtype), (data.shape, data.dtype)]
    return written("determinants", [data], outputs, body)


def signs_and_logarithms(data: te.Tensor) -> list[te.Tensor]:
    """Signs of determinants and logarithms of their absolute values, (M, 2) of matrices (M, N, N) of floats,
    and what is left of these.

    Numbers may have such a logarithm though the determinant is none of them. Of zero the sign is 0 and the
    logarithm minus infinity.
    """
    dtype = data.dtype

    def body(data: Any, result: Any, left: Any) -> None:
        zero, one = T.cast(0, dtype), T.cast(1, dtype)

        def start(matrix: Any) -> None:
            result[matrix, 0] = one
            result[matrix, 1] = zero

        def swap(matrix: Any) -> None:
            result[matrix, 0] = -result[matrix, 0]

        def multiply(matrix: Any, pivot: Any) -> None:
            sign = T.if_then_else(pivot > zero, one, T.if_then_else(pivot < zero, -one, zero))
            result[matrix, 0] = result[matrix, 0] * sign
            result[matrix, 1] = result[matrix, 1] + T.log(T.abs(pivot))

        _eliminate(data, left, start, swap, multiply)

    outputs = [((data.shape[0], 2), dtype), (data.shape, dtype)]
    return written("signs_and_logarithms", [data], outputs, body)


def _eliminate(
    data: Any,
    left: Any,
    start: Callable[[Any], None],
    swap: Callable[[Any], None],
    multiply: Callable[[Any, Any], None],
) -> None:
    """Make triangles ``left`` of the matrices ``data`` (M, N, N).

    ``start`` begins one, ``swap`` is told of two rows that change places, and ``multiply`` of each pivot.
    """
    matrices, size, _ = data.shape
    pivot, kept = variable("int64"), variable(data.dtype)
    with T.serial(0, matrices) as matrix:
        with T.serial(0, size) as row, T.serial(0, size) as column:
            left[matrix, row, column] = data[matrix, row, column]
        start(matrix)
        with T.serial(0, size) as step:
            find_pivot(pivot, left, matrix, step, size)
            with T.If(pivot[0] != step.astype("int64")), T.Then():
                swap(matrix)
                with T.serial(step, size) as column:
                    swap_with_pivot(kept, pivot, left, matrix, step, column)
            multiply(matrix, left[matrix, step, step])
            is_regular = left[matrix, step, step] != T.cast(0, data.dtype)
            with T.If(is_regular), T.Then(), T.serial(step + 1, size) as row:
                kept[0] = left[matrix, row, step] / left[matrix, step, step]
                with T.serial(step + 1, size) as column:
                    left[matrix, row, column] -= kept[0] * left[matrix, step, column]
