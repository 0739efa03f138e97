"""What CUDA has no vectors of: booleans in memory, and operators that C++ has for scalars alone."""

from collections.abc import Callable

import numpy as np
import pytest
from cuda_sources import cuda_source
from gpu_cases import simulated
from tvm import te, tirx, topi

from topi_ext.cuda.codegen.nvcc import compile_cubin, find_nvcc
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.elementwise import schedule_elementwise

SM_90 = MULTIPROCESSORS["sm_90"]

Compute = Callable[[te.Tensor, te.Tensor], te.Tensor]

CASES: dict[str, tuple[str, Compute]] = {
    "a comparison that is stored": ("float32", topi.less),
    "a comparison of float16 that is stored": ("float16", topi.equal),
    "a boolean that is read": ("bool", lambda x, y: topi.cast(topi.logical_and(x, y), "float32")),
    "not": ("bool", lambda x, y: topi.logical_not(x)),
    "not, in between": ("int32", lambda x, y: topi.where(topi.logical_not(topi.cast(x, "bool")), y, x)),
    "not, bit by bit": ("int32", lambda x, y: topi.bitwise_not(x)),
    "what is no number": ("float32", lambda x, y: topi.where(topi.isnan(x), y, x)),
}


def scheduled(dtype: str, compute: Compute) -> tirx.PrimFunc:
    left, right = (te.placeholder((3, 64), dtype, name) for name in ("left", "right"))
    schedule = schedule_elementwise(te.create_prim_func([left, right, compute(left, right)]))
    assert schedule is not None
    return schedule.mod["main"]


@pytest.mark.parametrize(("dtype", "compute"), CASES.values(), ids=CASES.keys())
def test_such_loops_are_of_scalars(dtype: str, compute: Compute) -> None:
    source = cuda_source(scheduled(dtype, compute), SM_90)
    kernel = source[source.index('extern "C" __global__') :]
    # A vector of four booleans would be moved as eight bytes.
    assert "4*)" not in kernel
    if find_nvcc() is not None:
        compile_cubin(source, SM_90.arch)


def test_comparisons_in_between_stay_vectors() -> None:
    kernel = scheduled("float32", lambda x, y: topi.where(topi.less(x, y), y, x))
    assert "*(float4*)" in cuda_source(kernel, SM_90)
    left, right = np.random.default_rng(0).standard_normal((2, 3, 64), dtype=np.float32)
    np.testing.assert_array_equal(simulated(kernel, SM_90, left, right), np.maximum(left, right))
