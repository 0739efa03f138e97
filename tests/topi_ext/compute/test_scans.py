"""Scans along each axis, beside numpy's."""

import operator
import re
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import compile_function, data_of, host_cpus, run_function, target_for
from tvm import te, tirx

from topi_ext.compute.scans import CHUNK, PARALLEL_ELEMENTS, scanned

TARGET = target_for(host_cpus()[-1])


def scan_of(array: np.ndarray, axis: int, dtype: str = "", **how: Any) -> np.ndarray:
    data = te.placeholder(array.shape, str(array.dtype), "data")
    result = scanned(data, axis, how.pop("combine", operator.add), dtype=dtype, **how)
    function = compile_function(te.create_prim_func([data, result]), TARGET)
    (found,) = run_function(function, [array], [(array.shape, dtype or str(array.dtype))])
    return found


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("width", [1, 16, 83])
def test_sums_along_an_axis(axis: int, width: int) -> None:
    array = data_of(5, 4, width)
    np.testing.assert_allclose(scan_of(array, axis), array.cumsum(axis), 1e-5, 1e-6)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("shape", [(3, 7, 5, 2), (2, 9, 1, 1), (4, 1, 6, 3), (1, 5, 40, 40)])
def test_short_rows(shape: tuple[int, ...], axis: int) -> None:
    array = data_of(*shape)
    np.testing.assert_allclose(scan_of(array, axis), array.cumsum(axis), 1e-5, 1e-6)
    np.testing.assert_allclose(scan_of(array, axis, before=0), array.cumsum(axis) - array, 1e-4, 1e-5)


def test_rows_are_added_in_vectors() -> None:
    data = te.placeholder((2, 5, 16, 2), "float32", "data")
    function = compile_function(te.create_prim_func([data, scanned(data, 1, operator.add)]), TARGET)
    assert re.search(r"addps|fadd\s+v", function.mod.inspect_source("asm"))


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("width", [CHUNK - 1, CHUNK, 2 * CHUNK + 3])
def test_rows_of_several_chunks(axis: int, width: int) -> None:
    array = data_of(2, 3, width)
    np.testing.assert_allclose(scan_of(array, axis), array.cumsum(axis), 1e-3, 1e-4)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sums_of_what_is_before(axis: int) -> None:
    array = data_of(6, 2, 70)
    np.testing.assert_allclose(scan_of(array, axis, before=0), array.cumsum(axis) - array, 1e-4, 1e-5)


@pytest.mark.parametrize("axis", range(3))
def test_open_extents_of_which_one_may_be_nothing(axis: int) -> None:
    data = te.placeholder([tirx.Var(name, "int64") for name in "abc"], "float32", "data")
    function = compile_function(te.create_prim_func([data, scanned(data, axis, operator.add)]), TARGET)
    for extents in ((2, 3, 5), (1, 1, 40), (0, 2, 3), (2, 0, 3), (2, 3, 0)):
        array = data_of(*extents)
        found = tvm.runtime.empty(extents, "float32")
        function["main"](tvm.runtime.tensor(array), found)
        np.testing.assert_allclose(found.numpy(), array.cumsum(axis), 1e-5, 1e-6)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows", [1, 3])
def test_threads_share_many_elements(axis: int, rows: int) -> None:
    array = data_of(rows, 4, PARALLEL_ELEMENTS // 4 + 1)
    np.testing.assert_allclose(scan_of(array, axis), array.cumsum(axis), 1e-4, 1e-4)


def test_sums_are_of_the_type_that_is_asked_for() -> None:
    array = np.full((2, 40), 100, "int8")
    np.testing.assert_array_equal(scan_of(array, 1, dtype="int64"), array.cumsum(1, "int64"))


def test_elements_are_combined_in_their_order() -> None:
    array = data_of(7, 20)
    want = np.stack([np.maximum.reduce(array[: row + 1] * 1.0) for row in range(7)])
    np.testing.assert_array_equal(scan_of(array, 0, combine=tirx.max), want)
    halved = scan_of(array, 0, combine=lambda left, right: left * 0.5 + right)
    want = sum(array[row] * 0.5 ** (6 - row) for row in range(7))
    np.testing.assert_allclose(halved[-1], want, 1e-5, 1e-6)
