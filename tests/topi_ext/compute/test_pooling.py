"""The poolings' mathematics, without a schedule: what padding, dilation and ceil mode mean."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from kernel_cases import PoolingCase, pooling_function
from kernel_harness import Array, compile_function, host_cpus, prim_func, run_guarded, target_for
from tvm import te, tirx

from topi_ext.compute import Pooling, avg_pool2d, max_pool2d

TARGET = target_for(host_cpus()[-1])

MEAN_OF_ALL = partial(avg_pool2d, count_include_pad=True)

PADDED = PoolingCase("max_pool2d", 1, 3, 7, 6, (3, 3), (2, 2), (1, 1, 0, 1))
CASES = [
    PADDED,
    replace(PADDED, ceil_mode=True, layout="NHWC"),
    replace(PADDED, dilation=(2, 1), padding=(1, 1, 1, 1)),
    replace(PADDED, dilation=(2, 2), padding=(1, 1, 1, 1), ceil_mode=True),
    PoolingCase("max_pool2d", 1, 1, 1, 1, (3, 3), (1, 1), (1, 1, 1, 1)),
]


@pytest.mark.parametrize("case", [*CASES, *(replace(case, operator="avg_pool2d") for case in CASES)], ids=str)
@pytest.mark.parametrize("count_include_pad", [False, True])
def test_unscheduled(case: PoolingCase, count_include_pad: bool) -> None:
    func, inputs, expected = pooling_function(replace(case, count_include_pad=count_include_pad))
    got = run_guarded(compile_function(func, TARGET), inputs, expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def pooled(
    pool: Callable[..., te.Tensor],
    values: Array,
    out_shape: tuple[int, ...],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    **window: Any,
) -> Array:
    """What a pooling makes of ``values``."""
    data = te.placeholder(values.shape, str(values.dtype), "data")
    result = pool(data, Pooling(kernel, strides, **window), out_shape)
    library = compile_function(prim_func([data, result]), TARGET)
    return run_guarded(library, [values], out_shape, str(values.dtype))


@pytest.mark.parametrize("dilation", [1, 2])
def test_padding_never_wins_a_maximum(dilation: int) -> None:
    side = 4 + 2 - 2 * dilation
    window = {"padding": (1, 1, 1, 1), "dilation": (dilation, dilation), "layout": "NHWC"}
    values = np.full((1, 4, 4, 8), -7, "float32")
    assert (pooled(max_pool2d, values, (1, side, side, 8), (3, 3), (1, 1), **window) == -7).all()


def test_a_window_beside_the_image_has_the_least_value() -> None:
    values = np.ones((1, 1, 2, 2), "float32")
    got = pooled(max_pool2d, values, (1, 1, 3, 2), (1, 1), (1, 1), padding=(1, 0, 0, 0))
    assert got[0, 0, :, 0].tolist() == [-np.inf, 1, 1]


def test_the_average_of_integers_is_cut_towards_zero() -> None:
    values = np.array([[[[-1, -2, 2, 3]]]], "int32")
    got = pooled(MEAN_OF_ALL, values, (1, 1, 1, 2), (1, 2), (1, 2))
    assert got.ravel().tolist() == [-1, 2]


def test_integers_have_a_maximum() -> None:
    values = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 16)).astype("int8")
    got = pooled(max_pool2d, values, (1, 2, 2, 16), (2, 2), (2, 2), layout="NHWC")
    np.testing.assert_array_equal(got, values.reshape(1, 2, 2, 2, 2, 16).max(axis=(2, 4)))


@pytest.mark.parametrize(("dilation", "counted"), [(1, 1), (2, 1)])
def test_what_ceil_mode_adds_beyond_the_padding_is_not_counted(dilation: int, counted: int) -> None:
    """The second window starts on the last column and reaches beyond the padded image."""
    values = np.array([[[[1, 3, 5, 8]]]], "float32")
    got = pooled(MEAN_OF_ALL, values, (1, 1, 1, 2), (1, 2), (1, 3), dilation=(1, dilation))
    assert got.ravel().tolist() == [2 if dilation == 1 else 3, 8 / counted]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dilation", [1, 2])
def test_the_largest_of_infinities(layout: str, dilation: int) -> None:
    values = np.full((1, 5, 20, 8) if layout == "NHWC" else (1, 8, 5, 20), -np.inf, "float32")
    shape = (1, 5, 20, 8) if layout == "NHWC" else (1, 8, 5, 20)
    window = {"padding": (dilation,) * 4, "dilation": (dilation, dilation), "layout": layout}
    assert (pooled(max_pool2d, values, shape, (3, 3), (1, 1), **window) == -np.inf).all()


@pytest.mark.parametrize("pool", [max_pool2d, MEAN_OF_ALL], ids=["max", "mean"])
def test_windows_within_images_of_any_size_have_no_conditions(
    pool: Callable[..., te.Tensor],
) -> None:
    height, width = tirx.Var("height", "int64"), tirx.Var("width", "int64")
    data = te.placeholder((1, 2, height, width), "float32")
    found = pool(data, pooling=Pooling((3, 1)), out_shape=(1, 2, height - 2, width))
    windows = found if pool is max_pool2d else found.op.input_tensors[0]
    script = str(windows.op.body[0])
    assert "if_then_else" not in script and "min" not in script
