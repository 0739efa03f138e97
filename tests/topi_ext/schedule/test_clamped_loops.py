"""Chunks of rows: the last one is as long as there are rows left, and no row asks whether it is there."""

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from topi_ext.schedule.blocks import child_blocks, open_schedule
from topi_ext.schedule.clamped_loops import apply_clamping, mark_clamped


def chunked(rows: int | tirx.Var) -> tirx.PrimFunc:
    data = te.placeholder((rows, 8), "float32", name="data")
    doubled = te.compute((rows, 8), lambda row, column: data[row, column] * 2, name="doubled")
    sch = open_schedule(te.create_prim_func([data, doubled], index_dtype_override="int64"))
    row, _ = sch.get_loops(child_blocks(sch)[0])
    _, inner = sch.split(row, [None, 4])
    mark_clamped(sch, inner)
    return sch.mod["main"]


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 11])
def test_every_row_is_there_once(rows: int) -> None:
    func = apply_clamping(chunked(tirx.Var("rows", "int64")))
    assert "T.where" not in func.script()
    module = tvm.compile(func.with_attr("global_symbol", "main"), target="llvm")
    image = np.random.default_rng(rows).standard_normal((rows, 8)).astype("float32")
    found = tvm.runtime.tensor(np.zeros((rows, 8), "float32"))
    module["main"](tvm.runtime.tensor(image), found)
    np.testing.assert_array_equal(found.numpy(), image * 2)


def test_unmarked_functions_stay() -> None:
    data = te.placeholder((4,), "float32")
    func = te.create_prim_func([data, te.compute((4,), lambda index: data[index] + 1)])
    assert apply_clamping(func).same_as(func)
