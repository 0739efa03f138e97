"""The largest and smallest elements, also of infinities and along several axes."""

import numpy as np
import pytest
from kernel_harness import check_kernel, compile_function, host_cpus, prim_func, run_guarded, target_for
from tvm import te

from topi_ext.compute.extremes import extreme, first_place

TARGET = target_for(host_cpus()[0])


@pytest.mark.parametrize("fill", [None, -np.inf, np.inf])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("axes", "keepdims"), [((1,), False), ((0, 2), True), ((0, 1, 2), False)])
def test_extremes(axes: tuple[int, ...], keepdims: bool, largest: bool, fill: float | None) -> None:
    data = np.random.default_rng(0).standard_normal((3, 5, 7), dtype=np.float32)
    if fill is not None:
        data[:, :, 1:] = fill
        data[1] = fill
    expected = (np.max if largest else np.min)(data, axis=axes, keepdims=keepdims)
    tensor = te.placeholder(data.shape, "float32", "data")
    func = prim_func([tensor, extreme(tensor, axes, keepdims, largest=largest)])
    np.testing.assert_array_equal(
        run_guarded(compile_function(func, TARGET), [data], expected.shape), expected
    )


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", [(8, 1000), (3, 37), (2, 6, 16, 16), (40, 4, 1, 1)])
def test_infinities_in_the_vectors_of_schedules(shape: tuple[int, ...], largest: bool) -> None:
    """Rows of nothing else, and rows with one other element in some lane."""
    axes = tuple(range(1 if len(shape) == 2 else 2, len(shape)))
    data = np.full(shape, -np.inf if largest else np.inf, np.float32)
    data.reshape(shape[0], -1)[1, 5 % data[0].size] = -7
    tensor = te.placeholder(shape, "float32", "data")
    func = prim_func([tensor, extreme(tensor, axes, False, largest=largest)])
    expected = (np.max if largest else np.min)(data, axis=axes)
    check_kernel(func, TARGET, [data], expected, case=(shape, largest))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("shape", [(8, 1000), (3, 37), (5, 1), (2, 3, 16)])
def test_first_places(shape: tuple[int, ...], keepdims: bool, largest: bool, dtype: str) -> None:
    """Of several equal elements the first, of rows that are all infinite as well."""
    data = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    if dtype == "float32":
        data[0], data[1] = np.inf, -np.inf
    tensor = te.placeholder(shape, dtype, "data")
    func = prim_func([tensor, first_place(tensor, keepdims, largest=largest)])
    expected = (np.argmax if largest else np.argmin)(data, axis=-1, keepdims=keepdims)
    check_kernel(func, TARGET, [data], expected, case=(shape, largest))


def test_the_first_place_of_no_number() -> None:
    data = np.full((2, 20), np.nan, "float32")
    data[1, 7] = 3
    tensor = te.placeholder(data.shape, "float32", "data")
    func = prim_func([tensor, first_place(tensor, False, largest=True)])
    got = run_guarded(compile_function(func, TARGET), [data], (2,), "int64")
    assert got[0] == 0 and got[1] in (0, 7)
