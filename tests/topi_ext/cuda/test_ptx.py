"""What kernels compute as nvcc compiles them: their PTX, inline assembly and all, on a machine in numpy."""

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpu_cases import bound, depthwise_error, product_error, scheduled_product, simulated, swept
from gpu_memory import SimulationError
from gpu_winograd import winograd_error
from ptx_cases import Compiled, run_ptx

from tests.topi_ext.cuda import test_numbers, test_winograd
from tests.topi_ext.cuda.codegen import test_bulk_copies, test_warpgroups
from tests.topi_ext.cuda.schedule import test_elementwise, test_normalization, test_reductions, test_rows
from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.compute.row_product import pack_rows
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS, Multiprocessor

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")

SM_75, SM_80, SM_90 = (MULTIPROCESSORS[arch] for arch in ("sm_75", "sm_80", "sm_90"))


def others(cases: dict[str, Any], *quick: str) -> set[str]:
    return set(cases) - set(quick)


MMA = test_numbers.PRODUCTS
OLDER = test_numbers.OLDER
WGMMA = test_warpgroups.PRODUCTS
BULK = test_bulk_copies.PRODUCTS
DEPTHWISE = test_numbers.DEPTHWISE


@pytest.mark.parametrize(
    "case", swept(MMA, others(MMA, "odd", "slices", "tf32 odd", "bordered bytes", "float32 slices"))
)
@pytest.mark.parametrize("sm", [SM_80, pytest.param(SM_90, marks=pytest.mark.slow)], ids=lambda sm: sm.arch)
def test_products(case: str, sm: Multiprocessor) -> None:
    work, knobs = MMA[case]
    assert product_error(work, knobs, sm, run=run_ptx) < bound(work.dtype)


@pytest.mark.parametrize("case", swept(OLDER, others(OLDER, "wmma", "mma odd", "mma uint8 odd", "uint8 odd")))
def test_products_of_turing(case: str) -> None:
    work, knobs = OLDER[case]
    assert product_error(work, knobs, SM_75, run=run_ptx) < bound(work.dtype)


@pytest.mark.parametrize("case", swept(WGMMA, others(WGMMA, "rows of 64 bytes", "tf32", "uint8")))
def test_products_of_four_warps(case: str) -> None:
    work, knobs = WGMMA[case]
    assert product_error(work, knobs, SM_90, run=run_ptx) < bound(work.dtype)


@pytest.mark.parametrize("case", swept(BULK, others(BULK, "two stages", "tf32", "int8")))
def test_bulk_copies(case: str) -> None:
    work, knobs = BULK[case]
    assert product_error(work, knobs, SM_90, run=run_ptx) < bound(work.dtype)


@pytest.mark.parametrize("case", swept(DEPTHWISE, others(DEPTHWISE, "odd", "uint8")))
def test_depthwise_convolutions(case: str) -> None:
    work, knobs = DEPTHWISE[case]
    assert depthwise_error(work, knobs, SM_80, run_ptx) < bound(work.dtype)


WINOGRAD = test_winograd.CASES


@pytest.mark.parametrize("tile", swept(test_winograd.BOUNDS, (2,)))
@pytest.mark.parametrize("case", swept(WINOGRAD, others(WINOGRAD, "odd image")))
def test_convolutions_of_winograd(case: str, tile: int) -> None:
    work, sm = WINOGRAD[case]
    assert winograd_error(work, test_winograd.knobs(tile), sm, run_ptx) < test_winograd.BOUNDS[tile]


def normal(*shape: int, dtype: str = "float16") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_rows_by_a_matrix() -> None:
    data, weight, shift = normal(2, 1, 1, 48), normal(9, 48), normal(9, dtype="float32")
    func = test_rows.scheduled(test_rows.function((2, 1, 1), 48, 9, "float16", bias=True))
    out = simulated(func, SM_80, data, pack_rows(weight), shift, run=run_ptx)
    expected = np.maximum(data.astype("float64") @ weight.astype("float64").T + shift, 0)
    np.testing.assert_allclose(out, expected, rtol=2e-3, atol=2e-2)


def test_layer_norm() -> None:
    data, (scale, shift) = normal(3, 384), normal(2, 384, dtype="float32")
    func = test_normalization.scheduled(test_normalization.layer_norm((3, 384)))
    exact = data.astype("float64")
    centred = exact - exact.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift
    out = simulated(func, SM_80, data, scale, shift, run=run_ptx)
    np.testing.assert_allclose(out, expected, rtol=2e-3, atol=2e-3)


def test_softmax() -> None:
    data = 4 * normal(6, 128, dtype="float32")
    exact = np.exp(data.astype("float64"))
    func = test_normalization.scheduled(test_normalization.softmax((6, 128)))
    out = simulated(func, SM_80, data, run=run_ptx)
    np.testing.assert_allclose(out, exact / exact.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("channels", [(8, 6, 10), (64, 32, 32)])
def test_concatenations(channels: tuple[int, ...]) -> None:
    parts = [normal(2, 3, 5, count) for count in channels]
    func = test_elementwise.scheduled(test_elementwise.concatenation(channels))
    out = simulated(func, SM_80, *parts, run=run_ptx)
    np.testing.assert_array_equal(out, np.maximum(np.concatenate(parts, 3), 0))


def test_the_largest_of_a_window() -> None:
    shape = (1, 7, 6, 33)
    data = normal(*shape)
    func = test_reductions.scheduled(test_reductions.pool(shape, "max", 5, 1, 2))
    image = np.pad(data, [(0, 0), (2, 2), (2, 2), (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(image, (5, 5), (1, 2))
    np.testing.assert_array_equal(simulated(func, SM_80, data, run=run_ptx), windows.max((-2, -1)))


@pytest.mark.parametrize("shape", [(3, 9, 8, 5), (1, 30, 31, 24)])
def test_the_mean_of_an_image(shape: tuple[int, ...]) -> None:
    data = normal(*shape)
    expected = data.astype(np.float64).mean((1, 2), keepdims=True)
    func = test_reductions.scheduled(test_reductions.mean(shape))
    np.testing.assert_allclose(simulated(func, SM_80, data, run=run_ptx), expected, atol=2e-4)


def replaced(pattern: str, by: str) -> Callable[[str], str]:
    """Changes PTX where it matches."""

    def change(text: str) -> str:
        changed, count = re.subn(pattern, by, text)
        assert count
        return changed

    return change


BROKEN = {
    "right operands of mma": ("mma", r"(mma\.sync.*\}, )\{(%r\d+), (%r\d+)\}(, \{%f)", r"\1{\3, \2}\4"),
    "matrices of ldmatrix": ("mma", r"(ldmatrix.*)\{(%r\d+), (%r\d+),", r"\1{\3, \2,"),
    "no wait for copies": ("mma", r"cp\.async\.wait_group \d", "cp.async.wait_group 9"),
    "another count of copies": ("mma", r"cp\.async\.wait_group 1", "cp.async.wait_group 2"),
    "no barriers": ("mma", r"bar\.sync\s+0;", ""),
    "rounding of tf32": ("tf32", r"cvt\.rna\.tf32\.f32", "mov.b32"),
    "operands of wgmma": ("wgmma", r"(wgmma\.mma.*\}, )(%rd\d+), (%rd\d+)", r"\1\3, \2"),
    "no wait for wgmma": ("wgmma", r"wgmma\.wait_group\.sync\.aligned \d", "wgmma.wait_group.sync.aligned 9"),
    "no fence of registers": ("wgmma", r"wgmma\.fence\.sync\.aligned;", ""),
    "no fence of memory": ("wgmma", r"fence\.proxy\.async\.shared::cta;", ""),
    "no barriers around wgmma": ("wgmma", r"bar\.sync\s+0;", ""),
    "no wait for a tile": ("bulk", r"@done bra DONE;\nbra WAIT;", ""),
    "coordinates of a tile": ("bulk", r"(tile.*\{)(%r\d+), (%r\d+)\}", r"\1\3, \2}"),
    "offsets of a tap": ("bulk", r"(im2col.*\{)(%rs\d+), (%rs\d+)\}", r"\1\3, \2}"),
    "bytes of a tile": ("bulk", r"(mbarrier\.init.*), 2;", r"\1, 1;"),
}
SUBJECTS = {
    "mma": (*MMA["odd"], SM_80),
    "tf32": (*MMA["tf32 odd"], SM_80),
    "wgmma": (*WGMMA["rows of 64 bytes"], SM_90),
    "bulk": (*BULK["two stages"], SM_90),
}


@functools.cache
def compiled(case: str) -> Compiled:
    work, knobs, sm = SUBJECTS[case]
    return Compiled(scheduled_product(work, knobs, sm), sm)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_change_of_one_instruction_is_found_out(kind: str) -> None:
    case, pattern, by = BROKEN[kind]
    work, knobs, sm = SUBJECTS[case]
    run = functools.partial(run_ptx, change=replaced(pattern, by), compiled=compiled(case))
    try:
        error = product_error(work, knobs, sm, run=run)
    except (SimulationError, AssertionError):
        return
    assert not error < bound(work.dtype)
