"""The best elements of rows, beside a sort of whole rows."""

import numpy as np
import pytest
from kernel_harness import Array, compile_function, host_cpus, run_function, target_for
from tvm import te

from topi_ext.compute.ranking import top_of_rows

TARGET = target_for(host_cpus()[-1])
RANDOM = np.random.default_rng(4)


def top(data: Array, count: int, *, largest: bool = True, index_dtype: str = "int64") -> tuple[Array, Array]:
    tensor = te.placeholder(data.shape, "float32")
    results = top_of_rows(tensor, count, largest=largest, index_dtype=index_dtype)
    function = compile_function(te.create_prim_func([tensor, *results]), TARGET)
    shape = (*data.shape[:-1], count)
    values, places = run_function(function, [data], [(shape, "float32"), (shape, index_dtype)])
    return values, places


def check(data: Array, count: int, *, largest: bool = True) -> None:
    values, places = top(data, count, largest=largest)
    expected = np.argsort(-data if largest else data, axis=-1, kind="stable")[..., :count]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(data, expected, -1))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("count", [1, 7, 16, 17, 199, 200])
def test_the_first_of_a_sort(count: int, largest: bool) -> None:
    check(RANDOM.standard_normal((2, 3, 200)).astype("float32"), count, largest=largest)


@pytest.mark.parametrize("largest", [True, False])
def test_numbers_of_all_magnitudes(largest: bool) -> None:
    data = RANDOM.standard_normal(3000) * 10.0 ** RANDOM.integers(-38, 38, 3000)
    data[[3, 500, 2000]] = np.inf, -np.inf, np.inf
    for count in (8, 100):
        check(data.astype("float32"), count, largest=largest)


@pytest.mark.parametrize("largest", [True, False])
def test_of_equal_ones_the_first_is_better(largest: bool) -> None:
    for count in (9, 90):
        check(RANDOM.integers(0, 5, (4, 300)).astype("float32"), count, largest=largest)
    check(np.array([0.0, -0.0, 0.0, -0.0, 1.0, -1.0], "float32"), 4, largest=largest)


@pytest.mark.parametrize("largest", [True, False])
def test_numbers_that_differ_in_their_last_bits(largest: bool) -> None:
    """All in one bucket, of both passes."""
    bits = np.float32(0.011).view("int32") + RANDOM.permutation(500).astype("int32")
    for count in (5, 60):
        check(bits.view("float32"), count, largest=largest)


def test_places_in_another_dtype() -> None:
    _, places = top(np.array([[1, 3, 2]], "float32"), 2, index_dtype="int32")
    assert places.dtype == "int32" and places.tolist() == [[1, 2]]


@pytest.mark.parametrize("rest", [0, 1, 63, 64, 65, 200])
def test_few_of_rows_that_are_sorted(rest: int) -> None:
    """Every element is better than those before it, or none is, whatever is left of what is compared."""
    data = np.arange(16 + rest, dtype="float32").reshape(1, -1)
    check(data, 16)
    check(data, 16, largest=False)


@pytest.mark.parametrize("sign", [-1, 1])
def test_few_of_which_some_are_no_numbers(sign: int) -> None:
    """Those of one sign are the largest, those of the other the least, whatever their bits."""
    data = RANDOM.standard_normal(100).astype("float32")
    data[[5, 80]] = np.array([0x7FFFFFFF, 0x7FC00000], "uint32").view("float32")
    data[[5, 80]] = np.copysign(data[[5, 80]], np.float32(sign))
    _, places = top(data, 2, largest=sign > 0)
    assert set(places.tolist()) == {5, 80}
