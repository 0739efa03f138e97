"""Expensive operations that many elements share: which are computed once, and that results stay."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_harness import check_loops, data_of, prim_func
from tvm import te, tirx, topi

from topi_ext.schedule.inlining import inlined
from topi_ext.schedule.sharing import with_shared_parts

N = tirx.Var("n", "int64")


def buffers(compute: Callable[..., Any], *shapes: tuple[Any, ...]) -> list[list[Any]]:
    """The shapes of the temporaries of a function of tensors of these shapes."""
    tensors = [te.placeholder(shape, "float32", name=f"x{place}") for place, shape in enumerate(shapes)]
    func = with_shared_parts(inlined(prim_func([*tensors, compute(*tensors)], "int64")))
    return [
        [int(extent) if isinstance(extent, tirx.IntImm) else extent.name for extent in buffer.shape]
        for buffer in func.body.block.alloc_buffers
    ]


def per_row(function: Callable[..., Any]) -> Callable[..., te.Tensor]:
    """Elements of a matrix times a function of the vector's element in their column."""
    return lambda x, y: te.compute(x.shape, lambda i, j: x[i, j] * function(y[j]))


@pytest.mark.parametrize(
    ("compute", "shapes", "expected"),
    [
        (per_row(te.sqrt), [(40, 24), (24,)], [[24]]),
        (per_row(lambda each: 1 / each), [(40, 24), (24,)], [[24]]),
        (per_row(lambda each: 1 / each), [(15, 24), (24,)], []),
        (per_row(lambda each: each + 1), [(40, 24), (24,)], []),
        (per_row(lambda each: te.sqrt(each) + 1 / te.sqrt(each)), [(40, 24), (24,)], [[24], [24]]),
        (per_row(lambda each: te.sqrt(te.sqrt(each) + 1)), [(40, 24), (24,)], [[24]]),
        (per_row(lambda each: te.sqrt(each) * te.sqrt(each)), [(40, 24), (24,)], [[24]]),
        (per_row(lambda each: te.if_then_else(each > 0, te.sqrt(each), each)), [(40, 24), (24,)], []),
        (per_row(te.sqrt), [(40, N), (N,)], [["n"]]),
        (per_row(te.sqrt), [(N, 24), (24,)], []),
        (lambda x, y: te.compute(x.shape, lambda i, j: x[i, j] / y[i]), [(40, 24), (40,)], []),
        (lambda x, y: te.compute(x.shape, lambda i, j: x[i, j] * te.sqrt(y[i])), [(40, 24), (40,)], []),
    ],
    ids=[
        *("root", "quotient", "few rows", "cheap", "two", "nested", "twice", "condition", "any columns"),
        *("any rows", "of all", "along rows"),
    ],
)
def test_what_is_shared(compute: Any, shapes: list[tuple[Any, ...]], expected: list[list[Any]]) -> None:
    """Nothing that a condition guards, and nothing that is the same along the innermost loop."""
    assert buffers(compute, *shapes) == expected


@pytest.mark.parametrize("shape", [(2, 40, 7, 5), (1, 33, 14, 14), (3, 17, 1, 9)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_layer_norm_over_channels(shape: tuple[int, ...], symbolic: bool) -> None:
    data, scale, shift = data_of(*shape), data_of(shape[1]), data_of(shape[1])
    mean, variance = data.mean(1, keepdims=True), data.var(1, keepdims=True)
    column = (-1, 1, 1)
    expected = (data - mean) / np.sqrt(variance + 1e-5) * scale.reshape(column) + shift.reshape(column)

    def norm(x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        return topi.nn.layer_norm(x, gamma, beta, [1], 1e-5)

    script = check_loops([data, scale, shift], norm, expected, symbolic, tolerance=1e-5)
    assert "_part" in script
