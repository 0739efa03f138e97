"""Long sums in parts: their error beside float64, and that no nest of loops loses anything by it."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx
from tvm.script import tirx as T

from topi_ext.codegen.build import compile_kernel
from topi_ext.codegen.partial_sums import PART, sum_in_parts
from topi_ext.schedule.blocks import open_schedule

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})


def sum_over(*extents: Any) -> tirx.PrimFunc:
    """The sum of all elements: zero first, then one loop for each axis."""
    data = te.placeholder(extents, "float32", "data")
    axes = [te.reduce_axis((0, extent)) for extent in extents]
    sch = open_schedule(
        te.create_prim_func([data, te.compute((1,), lambda _: te.sum(data(*axes), axes), "out")])
    )
    block = sch.get_sblock("out")
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    return sch.mod["main"]


def relative_error(func: tirx.PrimFunc, values: np.ndarray, exact: float) -> float:
    result = tvm.runtime.tensor(np.full(1, np.nan, np.float32))
    compile_kernel(func, TARGET)(tvm.runtime.tensor(values), result)
    return abs(float(result.numpy()[0]) - exact) / max(1.0, abs(exact))


def uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1.5, shape).astype(np.float32)


@pytest.mark.parametrize(
    "shape",
    [(1, 100000), (100000, 1), (7, 14011), (300, 333), (2, PART), (1, PART + 65), (3, 5, 7, 1009)],
    ids=str,
)
def test_long_sums_err_as_parts_do(shape: tuple[int, ...]) -> None:
    """One sum of 100000 elements errs by 1e-4."""
    values = uniform(*shape)
    assert relative_error(sum_over(*shape), values, values.sum(dtype=np.float64)) < 4e-6


@pytest.mark.parametrize("count", [0, 1, PART - 1, PART, PART + 1, 50001])
def test_sums_of_unknown_length_err_as_parts_do(count: int) -> None:
    values = uniform(count)
    func = sum_over(tirx.Var("length", "int64"))
    assert relative_error(func, values, values.sum(dtype=np.float64)) < 4e-6


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (1, 1), (3, 700), (700, 3)], ids=str)
def test_sums_of_unknown_rows_and_columns_lose_nothing(shape: tuple[int, int]) -> None:
    values = uniform(*shape)
    func = sum_over(tirx.Var("rows", "int64"), tirx.Var("columns", "int64"))
    assert relative_error(func, values, values.sum(dtype=np.float64)) < 4e-6


@pytest.mark.parametrize("count", [0, 7, 700])
def test_a_few_rows_of_unknown_length_and_their_rests_lose_nothing(count: int) -> None:
    """All rows would be one part, of which there is no total."""

    @T.prim_func(s_tir=True)
    def func(data_handle: T.handle, out: T.Buffer((1,), "float32")) -> None:
        length = T.int64()
        data = T.match_buffer(data_handle, (length,), "float32")
        out[0] = T.float32(0)
        for _ in range(2):
            for column in range(length):
                out[0] = out[0] + data[column]
            out[0] = out[0] + T.float32(1)

    values = uniform(count)
    assert relative_error(func, values, 2 * values.sum(dtype=np.float64) + 2) < 1e-6


def test_turns_that_a_condition_leaves_out_lose_nothing() -> None:
    @T.prim_func(s_tir=True)
    def func(data: T.Buffer((8, 100), "float32"), out: T.Buffer((1,), "float32")) -> None:
        out[0] = T.float32(1)
        for row in range(8):
            if row % 3 == 1:
                for column in range(100):
                    out[0] = out[0] + data[row, column]

    values = uniform(8, 100)
    assert relative_error(func, values, 1 + values[1::3].sum(dtype=np.float64)) < 1e-6


def test_a_sum_that_is_read_on_the_way_stays_whole() -> None:
    @T.prim_func(s_tir=True)
    def func(data: T.Buffer((1000,), "float32"), out: T.Buffer((1,), "float32")) -> None:
        for _ in range(1000):
            out[0] = T.float32(0)
            for times in range(1000):
                out[0] = out[0] + data[times] * T.Select(out[0] < T.float32(100), T.float32(1), T.float32(0))

    values = np.ones(1000, np.float32)
    assert relative_error(func, values, 100) == 0


def test_a_sum_whose_place_moves_stays_whole() -> None:
    @T.prim_func(s_tir=True)
    def func(data: T.Buffer((1000,), "float32"), out: T.Buffer((1,), "float32")) -> None:
        sums = T.alloc_buffer((8,), "float32")
        for place in range(8):
            sums[place] = T.float32(place)
        for column in range(1000):
            sums[column % 8] = sums[column % 8] + data[column]
        out[0] = sums[7]

    values = uniform(1000)
    assert relative_error(func, values, 7 + values[7::8].sum(dtype=np.float64)) < 1e-6


def test_sums_whose_places_are_read_stay_whole() -> None:
    @T.prim_func(s_tir=True)
    def func(
        data: T.Buffer((1000,), "float32"), places: T.Buffer((1000,), "int64"), out: T.Buffer((8,), "float32")
    ) -> None:
        for first in range(8):
            out[first] = T.float32(first)
        place = T.alloc_buffer((1,), "int64", scope="local")
        for column in range(1000):
            place[0] = places[column]
            out[place[0]] = out[place[0]] + data[column]

    values, places = uniform(1000), np.random.default_rng(1).integers(0, 8, 1000)
    found = tvm.runtime.tensor(np.full(8, np.nan, np.float32))
    compile_kernel(func, TARGET)(tvm.runtime.tensor(values), tvm.runtime.tensor(places), found)
    np.testing.assert_allclose(found.numpy(), np.arange(8) + np.bincount(places, values, 8), rtol=1e-5)


def test_statements_in_hundreds_of_others_are_read() -> None:
    """As the checks of a function of hundreds of arguments are nested."""
    func, given = sum_over(3), tirx.Var("given", "bool")
    body: Any = func.body
    for _ in range(400):
        body = tirx.SeqStmt([tirx.Evaluate(0), tirx.IfThenElse(given, body, None)])
    assert "main" in sum_in_parts()(tvm.IRModule({"main": func.with_body(body)}))
