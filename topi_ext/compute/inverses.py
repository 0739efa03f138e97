"""Inverses of square matrices, by elimination with the largest pivots."""

from typing import Any

from tvm import te
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written
from topi_ext.compute.pivots import find_pivot, swap_with_pivot


def inverses(data: te.Tensor) -> list[te.Tensor]:
    """The inverses (M, N, N) of matrices (M, N, N) of floats, and what is left of these.

    A matrix without a pivot that is not zero has infinities and NaN.
    """
    matrices, size, _ = data.shape

    def body(data: Any, result: Any, left: Any) -> None:
        pivot, kept = variable("int64"), variable(data.dtype)
        with T.serial(0, matrices) as matrix:
            with T.serial(0, size) as row, T.serial(0, size) as column:
                left[matrix, row, column] = data[matrix, row, column]
                result[matrix, row, column] = T.cast(row == column, data.dtype)
            with T.serial(0, size) as step:
                find_pivot(pivot, left, matrix, step, size)
                with T.If(pivot[0] != step.astype("int64")), T.Then(), T.serial(0, size) as column:
                    for half in (left, result):
                        swap_with_pivot(kept, pivot, half, matrix, step, column)
                kept[0] = T.cast(1, data.dtype) / left[matrix, step, step]
                with T.serial(0, size) as column:
                    for half in (left, result):
                        half[matrix, step, column] = half[matrix, step, column] * kept[0]
                with T.serial(0, size) as row, T.If(row != step), T.Then():
                    kept[0] = left[matrix, row, step]
                    with T.serial(0, size) as column:
                        for half in (left, result):
                            half[matrix, row, column] -= kept[0] * half[matrix, step, column]

    shape = (matrices, size, size)
    return written("inverses", [data], [(shape, data.dtype)] * 2, body)
