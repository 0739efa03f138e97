"""The order of elements of rows, beside a stable sort of numpy's."""

import numpy as np
import pytest
from kernel_harness import Array, compile_function, host_cpus, run_function, target_for
from tvm import te

from topi_ext.compute.sorting import falling_order

TARGET = target_for(host_cpus()[-1])
RANDOM = np.random.default_rng(11)


def order(values: Array, valid: Array) -> Array:
    tensors = [te.placeholder(array.shape, str(array.dtype)) for array in (values, valid)]
    function = compile_function(te.create_prim_func([*tensors, falling_order(*tensors)]), TARGET)
    (places,) = run_function(function, [values, valid], [(values.shape, "int32")])
    return places


def check(values: Array, valid: list[int]) -> None:
    places = order(values, np.array(valid, "int32"))
    for row, number, found in zip(values, valid, places, strict=True):
        expected = np.argsort(-row[: max(number, 0)].astype("float64"), kind="stable")
        np.testing.assert_array_equal(found[: len(expected)], expected)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
@pytest.mark.parametrize("length", [1, 2, 47, 48, 49, 50, 700])
def test_the_order_of_a_stable_sort(length: int, dtype: str) -> None:
    """By moving each to its place up to 48, and by digits above."""
    values = (RANDOM.standard_normal((3, length)) * 40).astype(dtype)
    check(values, [length, length // 2, 0])


def test_integers_of_all_sizes() -> None:
    check(RANDOM.integers(-(1 << 31), 1 << 31, (1, 3000)).astype("int32"), [3000])
    check(np.array([[-(1 << 31), (1 << 31) - 1, 0, -1, 1] * 20], "int32"), [100])


def test_of_equal_ones_the_first_is_first() -> None:
    check(RANDOM.integers(-2, 3, (2, 300)).astype("float32"), [300, 30])
    check(np.array([[0.0, -0.0] * 40], "float32"), [80])


@pytest.mark.parametrize(("said", "meant"), [(90, 60), (-3, 0)])
def test_counts_that_cannot_be(said: int, meant: int) -> None:
    values = RANDOM.standard_normal((1, 60)).astype("float32")
    places = order(values, np.array([said], "int32"))
    np.testing.assert_array_equal(places[0, :meant], np.argsort(-values[0, :meant], kind="stable"))
