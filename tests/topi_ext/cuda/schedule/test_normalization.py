"""Layer norm and softmax, on the simulated GPU, and what nvcc makes of them."""

from collections.abc import Callable

import numpy as np
import pytest
from cuda_sources import cuda_source
from gpu_cases import simulated
from tvm import te, tirx, topi

from topi_ext.cuda.codegen.nvcc import compile_cubin, find_nvcc
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.normalization import schedule_normalization

SM_80 = MULTIPROCESSORS["sm_80"]


def layer_norm(shape: tuple[int, ...]) -> tirx.PrimFunc:
    """Of float16, computed and scaled in float32."""
    data = te.placeholder(shape, "float16", "data")
    scale, shift = (te.placeholder(shape[-1:], "float32", name) for name in ("scale", "shift"))
    wide = te.compute(shape, lambda *index: data(*index).astype("float32"), name="wide")
    found = topi.nn.layer_norm(wide, scale, shift, [len(shape) - 1], 1e-5)
    out = te.compute(shape, lambda *index: found(*index).astype("float16"), name="out")
    return te.create_prim_func([data, scale, shift, out])


def softmax(shape: tuple[int, ...]) -> tirx.PrimFunc:
    data = te.placeholder(shape, "float32", "data")
    return te.create_prim_func([data, topi.nn.softmax(data)])


def scheduled(func: tirx.PrimFunc) -> tirx.PrimFunc:
    schedule = schedule_normalization(func)
    assert schedule is not None
    return schedule.mod["main"]


@pytest.mark.parametrize("shape", [(2, 5, 7, 96), (3, 384), (1, 1, 1, 768), (7, 48)])
def test_layer_norm(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    data = (random.standard_normal(shape) + 2).astype("float16")
    scale, shift = random.standard_normal((2, shape[-1])).astype("float32")
    exact = data.astype("float64")
    centred = exact - exact.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift
    found = simulated(scheduled(layer_norm(shape)), SM_80, data, scale, shift)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(6, 128), (3, 2304), (2, 3, 18)])
def test_softmax(shape: tuple[int, ...]) -> None:
    data = 4 * np.random.default_rng(0).standard_normal(shape).astype("float32")
    exact = np.exp(data.astype("float64"))
    expected = exact / exact.sum(-1, keepdims=True)
    if shape[-1] == 18:
        # Nine pairs are shared by no two lanes.
        assert schedule_normalization(softmax(shape)) is None
    else:
        found = simulated(scheduled(softmax(shape)), SM_80, data)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("columns", "is_unrolled"), [(2048, True), (16016, False), (32000, False)])
def test_turns_of_long_rows_stay_a_loop(columns: int, is_unrolled: bool) -> None:
    """Unrolled, they took the compiler minutes."""
    turns = columns // 4 // min(32, columns // 4 & -(columns // 4))
    script = scheduled(softmax((2, columns))).script()
    assert (f"T.unroll({turns})" in script) == is_unrolled
    assert (f" in range({turns})" in script) != is_unrolled


def other(reduce: Callable[[te.Tensor], te.Tensor]) -> tirx.PrimFunc:
    data = te.placeholder((4, 5, 32), "float32")
    return te.create_prim_func([data, reduce(data)])


def test_other_functions_are_left_to_other_rules() -> None:
    functions = [
        other(lambda data: topi.sum(data, axis=[2])),
        other(lambda data: topi.nn.softmax(data, axis=1)),
        other(topi.nn.relu),
    ]
    assert [schedule_normalization(func) for func in functions] == [None] * 3


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_rows_are_read_in_vectors_and_stay_in_registers() -> None:
    source = cuda_source(scheduled(layer_norm((1, 56, 56, 96))), MULTIPROCESSORS["sm_90"])
    (used,) = compile_cubin(source, "sm_90").resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert "half4" in source and "__shfl" in source
    assert "__syncthreads" not in source
