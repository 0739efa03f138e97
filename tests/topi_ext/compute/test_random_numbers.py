"""Random numbers of places, beside the same mixing by numpy and what even ones are like."""

from typing import Any

import numpy as np
import pytest
from kernel_harness import compile_function, host_cpus, run_function, target_for
from tvm import te, tirx

from topi_ext.compute.random_numbers import uniform

TARGET = target_for(host_cpus()[-1])
ROWS, COLUMNS = 300, 400


def drawn(seed: int) -> Any:
    rows = tirx.Var("n", "int64")
    placeholder = te.placeholder((rows,), "float32")
    numbers = uniform((rows, COLUMNS), seed)
    function = compile_function(te.create_prim_func([placeholder, numbers]), TARGET)
    (result,) = run_function(function, [np.zeros(ROWS, "float32")], [((ROWS, COLUMNS), "float32")])
    return result.astype("float64")


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_all_parts_have_as_many(seed: int) -> None:
    numbers = drawn(seed)
    assert numbers.min() >= 0 and numbers.max() < 1
    counts, _ = np.histogram(numbers, 100, (0, 1))
    expected = numbers.size / 100
    # A sum of squares of 99 numbers around 0 with the deviation 1; more than this in one of a million.
    assert ((counts - expected) ** 2 / expected).sum() < 180


def test_neighbours_tell_nothing_of_one_another() -> None:
    numbers = drawn(7)
    for one, other in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(numbers.size)


def test_other_seeds_give_others() -> None:
    assert abs(np.corrcoef(drawn(1).ravel(), drawn(2).ravel())[0, 1]) < 5 / np.sqrt(ROWS * COLUMNS)
