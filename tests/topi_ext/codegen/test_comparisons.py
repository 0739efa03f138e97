"""Comparisons of NaN and of truth values, as numpy has them, in every instruction set of this machine."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import compile_function, host_cpus, prim_func, target_for
from tvm import te, tirx

from topi_ext.schedule.cpu.loops import LoopNest

COUNT = 37
NUMBERS = np.where(np.arange(COUNT) % 3, np.linspace(-9, 9, COUNT), np.nan).astype("float32")
ZERO, SIX = (tirx.const(number, "float32") for number in (0.0, 6.0))


def computed(function: Callable[..., Any], *given: np.ndarray, cpu: str | None) -> np.ndarray:
    operands = [te.placeholder(array.shape, str(array.dtype), f"x{at}") for at, array in enumerate(given)]
    result = te.compute((COUNT,), lambda i: function(*(operand(i) for operand in operands)))
    scheduled = LoopNest().apply(prim_func([*operands, result]), target_for(cpu), False)
    assert scheduled is not None
    out = tvm.runtime.tensor(np.zeros(COUNT, str(result.dtype)))
    kernel = compile_function(scheduled.mod["main"], target_for(cpu))
    kernel["main"](*map(tvm.runtime.tensor, given), out)
    return np.asarray(out.numpy())


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: tirx.max(x, ZERO), np.maximum(NUMBERS, 0)),
        (lambda x: tirx.min(tirx.max(x, ZERO), SIX), np.clip(NUMBERS, 0, 6)),
        (lambda x: tirx.max(tirx.min(x, SIX), ZERO), np.clip(NUMBERS, 0, 6)),
        (lambda x: tirx.max(ZERO, tirx.min(SIX, x)), np.clip(NUMBERS, 0, 6)),
    ],
    ids=["relu", "relu6", "bounded below at last", "constants first"],
)
def test_bounds_keep_what_is_no_number(
    function: Callable[..., Any], wanted: np.ndarray, cpu: str | None
) -> None:
    np.testing.assert_array_equal(computed(function, NUMBERS, cpu=cpu), wanted)


@pytest.mark.parametrize("cpu", host_cpus())
def test_what_is_no_number_differs_from_itself(cpu: str | None) -> None:
    found = computed(lambda x, y: x != y, NUMBERS, NUMBERS.copy(), cpu=cpu)
    np.testing.assert_array_equal(found, NUMBERS != NUMBERS)


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("function", [lambda x, y: x == y, lambda x, y: x != y], ids=["==", "!="])
def test_truth_values_are_compared(function: Callable[..., Any], cpu: str | None) -> None:
    left, right = np.arange(COUNT) % 2 == 0, np.arange(COUNT) % 3 == 0
    found = computed(function, left, right, cpu=cpu)
    np.testing.assert_array_equal(found, function(left, right))
