"""Quotients and remainders of integers, against numpy's, which are exact."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_harness import binary_results, compile_function, host_cpus, prim_func, scheduled_by, target_for
from tvm import te

from topi_ext.compute.quotients import (
    EXACT,
    floored_integer_remainder,
    floored_quotient,
    integer_remainder,
    quotient,
)
from topi_ext.schedule.cpu.loops import LoopNest


def truncated(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    size = np.abs(dividend) // np.abs(divisor)
    return np.where((dividend < 0) == (divisor < 0), size, -size)


KINDS = pytest.mark.parametrize(
    ("compute", "wanted"),
    [
        (quotient, truncated),
        (floored_quotient, np.floor_divide),
        (integer_remainder, np.fmod),
        (floored_integer_remainder, np.mod),
    ],
    ids=["quotient", "floored-quotient", "remainder", "floored-remainder"],
)


def numbers(dtype: str) -> np.ndarray:
    """The ends of the range, what is next to them and to nothing, and others of every size."""
    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    ends = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2, 3, 7]
    near = [-1, -2, -3, -7] if limits.min < 0 else []
    shifts = random.integers(0, limits.bits, 60)
    return np.array([*ends, *near, *(random.integers(limits.min, limits.max, 60) >> shifts)], "int64")


@pytest.mark.parametrize("dtype", list(EXACT))
@KINDS
def test_integers_of_every_size(compute: Callable, wanted: Callable, dtype: str) -> None:
    """By 0 they are those by 1, and what a type does not hold wraps."""
    each = numbers(dtype)
    divisor = np.where(each == 0, 1, each)
    found = binary_results(compute, each[:, None].astype(dtype), each.astype(dtype))
    np.testing.assert_array_equal(found, wanted(each[:, None], divisor).astype(dtype))


@pytest.mark.parametrize("cpu", host_cpus())
@KINDS
def test_every_processor(compute: Callable, wanted: Callable, cpu: str) -> None:
    each = numbers("int32")
    left, right = each[::-1].astype("int32"), np.where(each == 0, 5, each).astype("int32")
    wide = wanted(left.astype("int64"), right.astype("int64")).astype("int32")
    np.testing.assert_array_equal(binary_results(compute, left, right, target_for(cpu)), wide)


def test_vectors() -> None:
    sides = [te.placeholder((64,), "int32", name=name) for name in "xy"]
    target = target_for("znver5")
    func = prim_func([*sides, quotient(*sides, (64,))])
    source = compile_function(scheduled_by(LoopNest(), func, target).mod["main"], target).mod
    assert "idiv" not in source.inspect_source("asm")
