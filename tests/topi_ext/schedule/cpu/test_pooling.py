"""The pooling rule: random poolings against numpy, and what it leaves to others."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import PoolingCase, pooling_case, pooling_function, run_pooling
from kernel_harness import check_kernel, host_cpus, prim_func, scheduled_by, target_for
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.compute import Pooling, max_pool2d
from topi_ext.schedule.cpu.pooling import WindowPooling

CPU = host_cpus()[-1]


@pytest.mark.parametrize("seed", range(80))
def test_random_pooling(seed: int) -> None:
    run_pooling(pooling_case(seed))


SWEEP = 50


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 10_600, SWEEP))
def test_sweep(start: int) -> None:
    failures = []
    for seed in range(start, start + SWEEP):
        try:
            run_pooling(pooling_case(seed))
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


RESNET = PoolingCase("max_pool2d", 1, 64, 112, 112, (3, 3), (2, 2), (1, 1, 1, 1), layout="NCHW16c", cpu=CPU)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(RESNET, id="resnet"),
        pytest.param(replace(RESNET, layout="NHWC", height=15, width=17), id="resnet in NHWC"),
        pytest.param(PoolingCase("max_pool2d", 1, 8, 1, 1, (1, 1), layout="NCHW8c"), id="one pixel"),
        pytest.param(PoolingCase("max_pool2d", 2, 1, 5, 3, (3, 3), layout="NHWC"), id="one channel"),
        pytest.param(PoolingCase("avg_pool2d", 1, 17, 7, 7, (7, 7), layout="NHWC"), id="the whole image"),
        pytest.param(
            PoolingCase("avg_pool2d", 1, 12, 9, 1, (3, 1), (2, 1), layout="NHWC"), id="columns of one pixel"
        ),
        pytest.param(
            PoolingCase(
                "avg_pool2d",
                1,
                16,
                6,
                6,
                (3, 3),
                (2, 2),
                ceil_mode=True,
                count_include_pad=True,
                layout="NCHW8c",
            ),
            id="ceil mode",
        ),
    ],
)
@pytest.mark.parametrize("epilogue", [False, True])
def test_degenerate(case: PoolingCase, epilogue: bool) -> None:
    run_pooling(replace(case, epilogue=epilogue))


def test_a_symbolic_batch_is_one_function_for_all() -> None:
    for batch in (1, 4):
        run_pooling(
            replace(RESNET, batch=batch, height=9, width=11, symbolic_batch=True, index_dtype="int64")
        )


def scheduled_maximum(dtype: str) -> tirx.PrimFunc:
    """Windows of 2x2 over 6x7 pixels of 32 channels."""
    data = te.placeholder((1, 6, 7, 32), dtype)
    func = prim_func([data, max_pool2d(data, Pooling((2, 2), layout="NHWC"), (1, 5, 6, 32))])
    scheduled_by(WindowPooling(), func, target_for(CPU))
    return func


def test_eight_bit_integers() -> None:
    func = scheduled_maximum("int8")
    values = np.random.default_rng(0).integers(-128, 128, (1, 6, 7, 32)).astype("int8")
    windows = [values[:, row : row + 5, column : column + 6] for row in (0, 1) for column in (0, 1)]
    check_kernel(func, target_for(CPU), [values], np.max(windows, axis=0))


@pytest.mark.parametrize("dtype", ["bfloat16", "int16"])
def test_every_element_type_compiles(dtype: str) -> None:
    scheduled_maximum(dtype)


def test_a_result_that_two_need_is_finished_before_it_is_read() -> None:
    case = PoolingCase("max_pool2d", 1, 16, 7, 9, (3, 3), layout="NCHW16c")
    _, inputs, expected = pooling_function(case)
    data = te.placeholder(inputs[0].shape)
    pooled = max_pool2d(data, Pooling((3, 3), layout="NCHW16c"), expected.shape)
    func = prim_func([data, topi.sum(topi.nn.relu(pooled), axis=(2, 3))])
    scheduled_by(WindowPooling(), func, target_for(CPU))
    check_kernel(func, target_for(CPU), inputs, np.maximum(expected, 0).sum(axis=(2, 3)))


def test_rows_shorter_than_a_tile_and_longer_are_one_function() -> None:
    for width in (2, 3, 4, 5, 9):
        run_pooling(
            PoolingCase(
                "avg_pool2d",
                2,
                26,
                5,
                width,
                (3, 3),
                padding=(1, 1, 1, 1),
                layout="NHWC",
                epilogue=True,
                symbolic_image=True,
            )
        )


def test_channels_that_fill_no_vector_have_no_conditions() -> None:
    func, _, _ = pooling_function(PoolingCase("max_pool2d", 1, 26, 9, 9, (3, 3), layout="NHWC"))
    schedule = scheduled_by(WindowPooling(), func, target_for(CPU))
    assert "T.where" not in schedule.mod["main"].script()


def test_other_targets_are_not_taken() -> None:
    func, _, _ = pooling_function(PoolingCase("max_pool2d", 1, 8, 4, 4, (2, 2), layout="NHWC"))
    assert WindowPooling().apply(func, Target("c"), False) is None
