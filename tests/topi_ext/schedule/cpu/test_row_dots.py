"""Dot products of rows: numpy's numbers of any size, in vectors."""

from typing import Any

import numpy as np
import pytest
from kernel_harness import compile_function, data_of, host_cpus, run_function, target_for
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.compute.row_dots import row_dots
from topi_ext.schedule.cpu.row_dots import RowDots

CPUS = host_cpus()


def extent(size: int | str) -> Any:
    return tirx.IntImm("int64", size) if isinstance(size, int) else tirx.Var(size, "int64")


def function(rows: int | str, columns: int | str, depth: int, *, scaled: bool = False) -> tirx.PrimFunc:
    left = te.placeholder((extent(2), extent(1), extent(rows), extent(depth)), "float32", "left")
    right = te.placeholder((extent(3), extent(columns), extent(depth)), "float32", "right")
    result = row_dots(left, right)
    if scaled:
        result = topi.tanh(topi.multiply(result, 0.25))
    return te.create_prim_func([left, right, result])


def scheduled(func: tirx.PrimFunc, cpu: str) -> tirx.PrimFunc:
    found = RowDots().apply(func, Target(target_for(cpu)), False)
    assert found is not None
    return found.mod["main"]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("columns", ["n", 16, 37])
@pytest.mark.parametrize(("rows", "depth"), [(1, 64), (2, 16), ("m", 32)])
def test_any_number_of_rows(rows: int | str, columns: int | str, depth: int, cpu: str) -> None:
    compiled = compile_function(scheduled(function(rows, columns, depth), cpu), target_for(cpu))
    for count in [columns] if isinstance(columns, int) else [1, 5, 16, 17, 40]:
        for height in [rows] if isinstance(rows, int) else [1, 3]:
            arrays = [data_of(2, 1, height, depth), data_of(3, count, depth)]
            (found,) = run_function(compiled, arrays, [((2, 3, height, count), "float32")])
            expected = arrays[0] @ arrays[1].transpose(0, 2, 1)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=f"{count} by {height}")


@pytest.mark.parametrize("cpu", CPUS)
def test_rows_by_themselves(cpu: str) -> None:
    rows = te.placeholder((extent(2), extent("n"), extent(32)), "float32", "rows")
    compiled = compile_function(
        scheduled(te.create_prim_func([rows, row_dots(rows, rows)]), cpu), target_for(cpu)
    )
    for count in [1, 5, 16, 37]:
        data = data_of(2, count, 32)
        (found,) = run_function(compiled, [data], [((2, count, count), "float32")])
        np.testing.assert_allclose(found, data @ data.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cpu", CPUS)
def test_what_follows_is_computed_of_each_tile(cpu: str) -> None:
    compiled = compile_function(scheduled(function(1, "n", 32, scaled=True), cpu), target_for(cpu))
    arrays = [data_of(2, 1, 1, 32), data_of(3, 21, 32)]
    (found,) = run_function(compiled, arrays, [((2, 3, 1, 21), "float32")])
    expected = np.tanh(arrays[0] @ arrays[1].transpose(0, 2, 1) / 4)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("func", [function(1, "n", 20), function(1, 3, 32)], ids=["depth", "columns"])
def test_what_fills_no_vectors_is_left(func: tirx.PrimFunc) -> None:
    assert RowDots().apply(func, Target(target_for("x86-64-v4")), False) is None
