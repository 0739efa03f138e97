"""Poolings and means, channels last, on the simulated GPU, and what nvcc makes of them."""

from typing import Any

import numpy as np
import pytest
from cuda_sources import cuda_source
from gpu_cases import simulated
from tvm import te, tirx, topi

from topi_ext.cuda.codegen.nvcc import compile_cubin, find_nvcc
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.reductions import schedule_reduction

SM_80 = MULTIPROCESSORS["sm_80"]


def function(shape: tuple[int, ...], reduce: Any) -> tirx.PrimFunc:
    """From float16 to float16, by way of float32."""
    data = te.placeholder(shape, "float16", "data")
    found = reduce(te.compute(shape, lambda *index: data(*index).astype("float32"), name="wide"))
    out = te.compute(found.shape, lambda *index: found(*index).astype("float16"), name="out")
    return te.create_prim_func([data, out])


def pool(shape: tuple[int, ...], kind: str, size: int, stride: int, padding: int) -> tirx.PrimFunc:
    window = [[size] * 2, [stride] * 2, [1, 1], [padding] * 4]
    return function(shape, lambda x: topi.nn.pool2d(x, *window, kind, layout="NHWC", count_include_pad=False))


def mean(shape: tuple[int, ...]) -> tirx.PrimFunc:
    pixels = float(shape[1] * shape[2])
    return function(shape, lambda x: topi.divide(topi.sum(x, axis=[1, 2], keepdims=True), pixels))


def scheduled(func: tirx.PrimFunc) -> tirx.PrimFunc:
    schedule = schedule_reduction(func)
    assert schedule is not None
    return schedule.mod["main"]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize(
    ("shape", "size", "stride", "padding"),
    [((1, 12, 13, 64), 3, 2, 1), ((2, 7, 7, 33), 5, 1, 2), ((1, 9, 9, 6), 2, 2, 0)],
)
def test_the_largest_of_a_window(shape: tuple, size: int, stride: int, padding: int) -> None:
    data = random(*shape)
    found = simulated(scheduled(pool(shape, "max", size, stride, padding)), SM_80, data)
    border = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
    image = np.pad(data, border, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), (1, 2))
    np.testing.assert_array_equal(found, windows[:, ::stride, ::stride].max((-2, -1)))


def test_windows_of_many_images_are_read_in_vectors() -> None:
    """As in YOLO at batch 32, where rows of blocks are of several images."""
    kernel = scheduled(pool((32, 10, 10, 128), "max", 5, 1, 2)).script()
    assert kernel.count("T.vectorized(4)") == 3
    assert 'T.thread_binding(800, thread="blockIdx.x")' in kernel


@pytest.mark.parametrize("shape", [(2, 7, 7, 40), (1, 30, 31, 24), (3, 9, 8, 5), (1, 48, 47, 32)])
def test_the_mean_of_an_image(shape: tuple) -> None:
    data = random(*shape)
    expected = data.astype(np.float64).mean((1, 2), keepdims=True)
    np.testing.assert_allclose(simulated(scheduled(mean(shape)), SM_80, data), expected, atol=2e-4)


@pytest.mark.parametrize(("shape", "most"), [((1, 14, 14, 64), 0), ((1, 24, 24, 32), 242)])
def test_partial_sums_meet_few_banks_twice(shape: tuple, most: int) -> None:
    """Side by side in powers of two, those of 32 channels would all be in one bank: 420 and 3870 times."""
    waited: dict[str, int] = {}
    simulated(scheduled(mean(shape)), SM_80, random(*shape), waited=waited)
    assert waited["load"] + waited["store"] <= most, waited


@pytest.mark.parametrize("shape", [(2, 21, 5, 6), (1, 300, 4, 12), (30, 1, 1, 21)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_of_an_extreme_element(shape: tuple, name: str) -> None:
    """Of several that are equal, the first, as of the channels of an image whose rows are last."""
    data = random(*shape).round()
    axis = 1 if shape[1] > 1 else 0
    kernel = scheduled(function(shape, lambda x: getattr(topi, name)(x, axis=axis, keepdims=True)))
    expected = getattr(np, name)(data, axis=axis, keepdims=True)
    np.testing.assert_array_equal(simulated(kernel, SM_80, data), expected)


def test_other_functions_are_left_to_other_rules() -> None:
    def last(x: te.Tensor) -> te.Tensor:
        return topi.sum(x, axis=[3])

    def first(x: te.Tensor) -> te.Tensor:
        return topi.nn.pool2d(x, [3, 3], [1, 1], [1, 1], [0] * 4, "max", layout="NCHW")

    assert schedule_reduction(function((1, 4, 5, 6), last)) is None
    assert schedule_reduction(function((1, 4, 5, 6), first)) is None
    assert schedule_reduction(function((1, 4, 5, 6), topi.nn.relu)) is None


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("kernel", ["pool", "mean"])
def test_neither_takes_local_memory(kernel: str, arch: str) -> None:
    func = pool((1, 112, 112, 64), "max", 3, 2, 1) if kernel == "pool" else mean((1, 56, 56, 96))
    source = cuda_source(scheduled(func), MULTIPROCESSORS[arch])
    (used,) = compile_cubin(source, arch).resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    if kernel == "pool":
        assert "*(half4*)" in source
