"""Many knobs at once: what is estimated of all is what is estimated of each."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_cases import workload

from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs, depthwise_misfit
from topi_ext.cuda.depthwise_space import cheapest_depthwise, depthwise_knobs, depthwise_us
from topi_ext.cuda.gemm_knobs import GemmKnobs, misfit
from topi_ext.cuda.gemm_space import cheapest_gemm, gemm_knobs, gemm_us
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.stacked import first_fitting, greatest, least, rounded_up, stacked
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution

WORKS = [
    workload(1, (14, 14), (64, 64)),
    workload(32, (56, 56), (24, 144), (1, 1), padding=(0,) * 4),
    workload(2, (9, 7), (32, 48), groups=2),
    workload(1, (7, 7), (512, 512)),
]
DEPTHWISE = [
    DepthwiseConvolution(1, 14, 14, 96, 96, (3, 3), (1, 1), (1,) * 4, (1, 1), 96, "float16"),
    DepthwiseConvolution(8, 9, 11, 10, 20, (5, 3), (2, 1), (2, 1, 2, 1), (1, 2), 10, "float16"),
]


def products(arch: str) -> list[GemmConvolution]:
    dtypes = [dtype for dtype, macs in MULTIPROCESSORS[arch].macs.items() if macs]
    return [replace(work, dtype=dtype) for work in WORKS for dtype in dtypes]


@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_90"])
def test_the_cheapest_product_is_that_of_the_space(arch: str) -> None:
    sm = MULTIPROCESSORS[arch]
    for work in products(arch):
        estimate, knobs = cheapest_gemm(work, sm)
        assert estimate == min(each for each, _ in gemm_knobs(work, sm))
        assert misfit(work, knobs, sm) is None


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_products_are_estimated_alike_alone_and_together(arch: str) -> None:
    sm = MULTIPROCESSORS[arch]
    for work in products(arch):
        for estimate, knobs in list(gemm_knobs(work, sm))[::97]:
            assert gemm_us(work, knobs, sm) == pytest.approx(estimate, rel=1e-12)


@pytest.mark.parametrize("work", DEPTHWISE, ids=["plain", "uneven"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8"])
def test_depthwise_convolutions_likewise(work: DepthwiseConvolution, dtype: str) -> None:
    sm, work = MULTIPROCESSORS["sm_80"], replace(work, dtype=dtype)
    space = list(depthwise_knobs(work, sm))
    estimate, knobs = cheapest_depthwise(work, sm)
    assert estimate == min(each for each, _ in space)
    assert depthwise_misfit(work, knobs, sm) is None
    for each, choice in space[::97]:
        assert depthwise_us(work, choice, sm) == pytest.approx(each, rel=1e-12)


def test_names_that_all_share_stay_names() -> None:
    choices = [GemmKnobs("wgmma", 64, columns, 64, 4, 1, 3, copies="bulk") for columns in (64, 128)]
    assert stacked(choices).copies == "bulk"
    mixed = stacked([choices[0], replace(choices[1], copies="async")])
    assert (mixed.copies == np.array(["bulk", "async"])).all()
    assert (mixed.warp_n == np.array([64, 128])).all()
    assert (mixed.block_m == np.array([64, 64])).all()


def test_one_choice_is_an_array_of_one() -> None:
    assert stacked([DepthwiseKnobs(1, 1, 1, 1, 1, 1)]).threads.tolist() == [1]


def test_the_first_that_fits_in_the_order_of_the_keys() -> None:
    choices = [GemmKnobs("fma", size, 32, 32, 1, 1, 2) for size in (32, 64, 96, 128)]
    keys = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 1.0, 1.0]])
    asked = []

    def fits(knobs: GemmKnobs) -> bool:
        asked.append(knobs.block_m)
        return knobs.block_m in (32, 64)

    assert first_fitting(choices, keys, fits) == 1
    assert asked == [96, 128, 64]
    assert first_fitting(choices, keys, lambda knobs: False) is None


def test_numbers_are_compared_as_arrays_are() -> None:
    assert least(3, np.array([1, 5]), 4).tolist() == [1, 3]
    assert greatest(3, np.array([1, 5])).tolist() == [3, 5]
    assert (least(2, 1), greatest(2, 1), rounded_up(1.25), rounded_up(2.0)) == (1, 2, 2, 2)
