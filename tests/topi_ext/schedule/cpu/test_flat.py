"""Elementwise blocks over places in memory: which ones are, and that their vectors stay whole."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_harness import check_loops, compile_function, data_of, prim_func, scheduled_by, target_for
from tvm import te, tirx, topi

from topi_ext.compute.extremes import extreme
from topi_ext.ir import nodes_of
from topi_ext.schedule.cpu.flat import flattened
from topi_ext.schedule.cpu.loops import LoopNest

LANES = 16

Compute = Callable[..., Any]


def extents(compute: Compute, *shapes: tuple[Any, ...]) -> list[Any]:
    """The extents of the loops of a function of tensors of these shapes, those of its last block first."""
    tensors = [te.placeholder(shape, "float32", name=f"x{place}") for place, shape in enumerate(shapes)]
    func = flattened(prim_func([*tensors, compute(*tensors)]), LANES)
    return [
        int(loop.extent) if isinstance(loop.extent, tirx.IntImm) else loop.extent.name
        for loop in reversed(nodes_of(func.body, tirx.For))
    ]


N = tirx.Var("n", "int64")


def repeated(*times: int) -> Compute:
    """A tensor with each axis repeated so often, plus one."""

    def compute(x: te.Tensor) -> te.Tensor:
        shape = [extent * count for extent, count in zip(x.shape, times, strict=True)]
        return te.compute(
            shape,
            lambda *index: (
                x(
                    *(
                        place if count == 1 else place % extent
                        for place, extent, count in zip(index, x.shape, times, strict=True)
                    )
                )
                + 1
            ),
        )

    return compute


@pytest.mark.parametrize(
    ("compute", "shapes", "loops"),
    [
        (topi.nn.relu, [(2, 16, 5)], [160]),
        (topi.add, [(2, 16, 5), (2, 16, 5)], [160]),
        (lambda x, y: topi.add(x, y[0]), [(2, 16, 5), (1,)], [160]),
        (topi.nn.relu, [(2, 14, 96, 200)], [537600]),
        (topi.nn.relu, [(2, 3, 5)], [2, 3, 5]),
        (topi.nn.relu, [(2, 3, 16)], [2, 3, 16]),
        (topi.add, [(2, 3, 5), (2, 1, 1)], [2, 15]),
        (lambda x: te.compute((2, 3, 5), lambda i, j, k: x[i + 1, j, k]), [(4, 3, 5)], [30]),
        (topi.add, [(2, 3, 5), (5,)], [6, 5]),
        (topi.transpose, [(2, 3, 5)], [5, 3, 2]),
        (lambda x: te.compute(x.shape, lambda i, j: x[i, j] * (i >= j).astype("float32")), [(4, 5)], [4, 5]),
        (topi.nn.relu, [(N, 4, 8)], ["n", 32]),
        (topi.nn.relu, [(N, 4, 9)], ["n", 4, 9]),
        (topi.nn.relu, [(2, N, 16)], [2, "n", 16]),
        (topi.nn.relu, [(0, 3, 5)], [0, 3, 5]),
        (topi.nn.relu, [(1, 1, 5)], [1, 1, 5]),
        (repeated(3, 1, 1), [(2, 3, 5)], [3, 30]),
        (repeated(2, 3, 1), [(2, 3, 5)], [2, 2, 3, 15]),
        (repeated(1, 1, 9), [(2, 3, 5)], [6, 9, 5]),
        (repeated(1, 1, 9), [(2, 3, 4)], [6, 36]),
        (repeated(1, 3, 1), [(N, 4, 4)], ["n", 3, 16]),
        (lambda x: topi.sum(x, 1), [(2, 8, 3, 5)], [2, 15, 8]),
        (lambda x: topi.sum(x, 1, True), [(2, 8, 3, 5, 7)], [2, 105, 8]),
        (lambda x: topi.max(x, [1, 2]), [(2, 8, 3, 5, 7)], [2, 35, 8, 3]),
        (lambda x: topi.sum(x, 1), [(2, 8, 3, 16)], [2, 3, 16, 8]),
        (lambda x: topi.sum(x, 3), [(2, 8, 3, 5)], [2, 8, 3, 5]),
    ],
    ids=[
        *("one", "two", "scalar", "few-long-rows", "seen", "vectors", "image", "slice", "broadcast"),
        *("transposed", "triangle", "batch", "odd", "row", "empty", "ones"),
        *("repeats", "repeats-within", "repeated-rows", "repeated-short-rows", "repeats-of-a-batch"),
        *("channels", "volumes", "several", "whole vectors", "along rows"),
    ],
)
def test_what_is_flat(compute: Compute, shapes: list[tuple[Any, ...]], loops: list[Any]) -> None:
    assert extents(compute, *shapes) == loops


def mean_of_channels(x: te.Tensor) -> te.Tensor:
    return topi.divide(topi.sum(x, 1, True), float(int(x.shape[1])))


def test_what_shares_a_temporary_agrees_on_its_rows() -> None:
    """Its mean could be one row, but its sum is one of each image."""
    assert extents(mean_of_channels, (2, 8, 3, 5)) == [2, 15, 2, 15, 8]


def test_maxima_of_joined_axes_begin_with_infinity() -> None:
    data = np.full((2, 8, 3, 5), -np.inf, "float32")
    check_loops([data], lambda x: extreme(x, [1], True, largest=True), data.max(1, keepdims=True), False)


def test_a_temporary_that_is_shifted_keeps_its_rows() -> None:
    def shifted(x: te.Tensor) -> te.Tensor:
        total = topi.sum(x, 1)
        return te.compute((2, 3, 4), lambda n, i, j: total[n, i, j] - total[n, i, j + 1])

    assert extents(shifted, (2, 8, 3, 5)) == [2, 3, 4, 2, 3, 5, 8]


@pytest.mark.parametrize("shape", [(2, 8, 3, 5), (3, 40, 14, 14), (2, 7, 3, 5, 9), (1, 20, 7, 7)])
def test_means_over_channels(shape: tuple[int, ...]) -> None:
    data = data_of(*shape)
    check_loops([data], mean_of_channels, data.mean(1, keepdims=True), False)


@pytest.mark.parametrize("shape", [(2, 160, 14, 14), (3, 16, 7, 7), (8, 5, 4, 12), (2, 14, 96, 200)])
def test_vectors_of_images_that_they_divide(shape: tuple[int, ...]) -> None:
    """Elements are not put into a vector one by one."""
    target = target_for("znver5")
    tensor = te.placeholder(shape, "float32", name="x")
    schedule = scheduled_by(LoopNest(), prim_func([tensor, topi.nn.relu(tensor)]), target)
    source = compile_function(schedule.mod["main"], target).mod.inspect_source("ll")
    assert "<16 x float>" in source
    assert "insertelement <16 x float>" not in source


@pytest.mark.parametrize("batch", [1, 3])
def test_a_symbolic_batch(batch: int) -> None:
    data = data_of(batch, 4, 8, 3)
    check_loops([data], topi.nn.relu, np.maximum(data, 0), True)


@pytest.mark.parametrize("shape", [(19, 21, 2), (7, 3, 5, 8), (9, 2)])
def test_rows_that_divide_a_vector_are_joined(shape: tuple[int, ...]) -> None:
    """Each lane would have its place as quotients and remainders, and be loaded by itself."""
    assert extents(topi.nn.relu, shape) == [int(np.prod(shape))]
    data = data_of(*shape)
    check_loops([data], topi.nn.relu, np.maximum(data, 0), False)
