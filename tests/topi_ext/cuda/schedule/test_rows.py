"""Few rows by a matrix, on the simulated GPU, and what nvcc makes of it."""

import numpy as np
import pytest
from cuda_sources import cuda_source
from gpu_cases import simulated
from tvm import te, tirx, topi

from topi_ext.cuda.codegen.nvcc import compile_cubin, find_nvcc
from topi_ext.cuda.compute.row_product import pack_rows, row_product
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.rows import schedule_rows

SM_80 = MULTIPROCESSORS["sm_80"]


def function(rows: tuple[int, ...], depth: int, outputs: int, dtype: str, *, bias: bool) -> tirx.PrimFunc:
    """With ``bias``, also a maximum with 0 and a result of the data's dtype."""
    data = te.placeholder((*rows, depth), dtype, "data")
    packed = pack_rows(np.zeros((outputs, depth), dtype)).shape
    weight = te.placeholder(packed, dtype, "weight")
    found = row_product(data, weight, rows)
    if not bias:
        return te.create_prim_func([data, weight, found])
    shift = te.placeholder((outputs,), "float32", "shift")
    out = topi.nn.relu(topi.add(found, shift)).astype(dtype)
    return te.create_prim_func([data, weight, shift, out])


def scheduled(func: tirx.PrimFunc) -> tirx.PrimFunc:
    schedule = schedule_rows(func)
    assert schedule is not None
    return schedule.mod["main"]


@pytest.mark.parametrize(
    ("rows", "depth", "outputs", "dtype"),
    [
        ((1,), 480, 20, "float16"),
        ((2, 1, 1), 48, 9, "float16"),
        ((1,), 20, 3, "float16"),
        ((1, 1, 1), 6, 144, "float16"),
        ((3,), 515, 7, "float32"),
    ],
)
def test_rows_by_a_matrix(rows: tuple[int, ...], depth: int, outputs: int, dtype: str) -> None:
    random = np.random.default_rng(0)
    data = random.standard_normal((*rows, depth)).astype(dtype)
    weight = random.standard_normal((outputs, depth)).astype(dtype)
    shift = random.standard_normal(outputs).astype("float32")
    exact = data.astype("float64") @ weight.astype("float64").T
    for bias in (False, True):
        func = function(rows, depth, outputs, dtype, bias=bias)
        out = simulated(scheduled(func), SM_80, data, pack_rows(weight), *([shift] if bias else []))
        assert (out.shape, out.dtype) == ((*rows, outputs), dtype if bias else "float32")
        expected = np.maximum(exact + shift, 0) if bias else exact
        tolerance = 2e-3 if bias and dtype == "float16" else 1e-5
        np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance * 10)


def test_other_functions_are_left_to_other_rules() -> None:
    image = te.placeholder((9, 16), "float32")
    assert schedule_rows(te.create_prim_func([image, topi.nn.relu(image)])) is None


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_weights_are_read_in_vectors() -> None:
    source = cuda_source(
        scheduled(function((1,), 2048, 1000, "float16", bias=True)), MULTIPROCESSORS["sm_90"]
    )
    (used,) = compile_cubin(source, "sm_90").resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert source.count("*(half4*)(weight") + source.count("*(uint2*)(weight") >= 1
    assert "__shfl" in source
