"""Determinants of square matrices, by elimination with the largest pivots."""

from typing import Any

from tvm import te
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written
from topi_ext.compute.pivots import find_pivot, swap_with_pivot


def determinants(data: te.Tensor) -> list[te.Tensor]:
    """The determinants (M) of matrices (M, N, N) of floats, and what is left of these.

    A matrix without a pivot that is not zero has zero for its determinant.
    """
    matrices, size, _ = data.shape

    def body(data: Any, result: Any, left: Any) -> None:
        pivot, kept = variable("int64"), variable(data.dtype)
        with T.serial(0, matrices) as matrix:
            with T.serial(0, size) as row, T.serial(0, size) as column:
                left[matrix, row, column] = data[matrix, row, column]
            result[matrix] = T.cast(1, data.dtype)
            with T.serial(0, size) as step:
                find_pivot(pivot, left, matrix, step, size)
                with T.If(pivot[0] != step.astype("int64")), T.Then():
                    result[matrix] = -result[matrix]
                    with T.serial(step, size) as column:
                        swap_with_pivot(kept, pivot, left, matrix, step, column)
                result[matrix] = result[matrix] * left[matrix, step, step]
                is_regular = left[matrix, step, step] != T.cast(0, data.dtype)
                with T.If(is_regular), T.Then(), T.serial(step + 1, size) as row:
                    kept[0] = left[matrix, row, step] / left[matrix, step, step]
                    with T.serial(step + 1, size) as column:
                        left[matrix, row, column] -= kept[0] * left[matrix, step, column]

    outputs = [((matrices,), data.dtype), ((matrices, size, size), data.dtype)]
    return written("determinants", [data], outputs, body)
