"""Reductions along rows of unknown length: right for any, and in vectors."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_harness import Array, check_kernel, data_of, host_cpus, prim_func, scheduled_by, target_for
from tvm import te, tirx, topi

from topi_ext.schedule.cpu.open_rows import OpenRows


def opened(*extents: int | str) -> te.Tensor:
    shape = [tirx.Var(extent, "int64") if isinstance(extent, str) else extent for extent in extents]
    return te.placeholder(shape, "float32", "x")


def schedule_of(x: te.Tensor, result: te.Tensor) -> str:
    target = target_for(host_cpus()[-1])
    return str(scheduled_by(OpenRows(), prim_func([x, result], "int64"), target).mod["main"].script())


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("length", [1, 7, 16, 17, 47, 300])
@pytest.mark.parametrize(
    ("reduce", "expected"), [(topi.sum, np.sum), (topi.max, np.max)], ids=["sum", "maximum"]
)
def test_rows(
    reduce: Callable[..., te.Tensor], expected: Callable[..., Array], length: int, cpu: str
) -> None:
    data, x = data_of(3, 5, length), opened(3, "m", "n")
    func = prim_func([x, reduce(x, -1)], "int64")
    check_kernel(
        func,
        target_for(cpu),
        [data],
        expected(data, -1).astype("float32"),
        tolerance=1e-6,
        schedule=lambda func, target: scheduled_by(OpenRows(), func, target),
    )


@pytest.mark.parametrize("size", [(1, 1), (3, 15), (5, 16), (4, 33)])
def test_images(size: tuple[int, int]) -> None:
    data, x = data_of(2, 3, *size), opened(2, 3, "h", "w")
    func = prim_func([x, topi.sum(x, (2, 3), keepdims=True)], "int64")
    check_kernel(
        func,
        target_for(host_cpus()[-1]),
        [data],
        data.sum((2, 3), keepdims=True),
        tolerance=1e-6,
        schedule=lambda func, target: scheduled_by(OpenRows(), func, target),
    )


def test_rows_are_reduced_in_vectors() -> None:
    x = opened(3, "m", "n")
    assert "T.vectorized(" in schedule_of(x, topi.sum(x, -1))


@pytest.mark.parametrize(("extents", "axis"), [((3, "m", 40), -1), (("m", "n"), 0), (("m", "n", 40), 1)])
def test_others_are_left_to_other_rules(extents: tuple[int | str, ...], axis: int) -> None:
    x = opened(*extents)
    func = prim_func([x, topi.sum(x, axis)], "int64")
    assert OpenRows().apply(func, target_for(host_cpus()[-1]), False) is None
