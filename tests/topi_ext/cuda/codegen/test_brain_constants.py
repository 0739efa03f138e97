"""Constants that are not finite, in what nvcc takes."""

import math

import pytest
import tvm
from cuda_sources import cuda_source
from tvm import te, tirx

from topi_ext.cuda.codegen.nvcc import compile_cubin, find_nvcc
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.elementwise import schedule_elementwise

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")


def masked(value: float) -> tvm.tirx.PrimFunc:
    data = te.placeholder((64,), "bfloat16", "data")
    masked = te.compute(data.shape, lambda i: tirx.Select(i > 3, data[i], tirx.const(value, "bfloat16")))
    schedule = schedule_elementwise(te.create_prim_func([data, masked]))
    assert schedule is not None
    return schedule.mod["main"]


@pytest.mark.parametrize(
    ("value", "written"),
    [(math.inf, "CUDART_INF_F"), (-math.inf, "-CUDART_INF_F"), (math.nan, "CUDART_NAN_F")],
)
def test_they_are_converted_from_float32(value: float, written: str) -> None:
    source = cuda_source(masked(value), MULTIPROCESSORS["sm_80"])
    compile_cubin(source, "sm_80")
    assert f"((nv_bfloat16){written})" in source
