"""Winograd's convolution on GPUs: numbers on the simulated one, machine code, knobs and estimates."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest
from cuda_sources import cuda_source
from gpu_cases import workload
from gpu_winograd import (
    image_function,
    result_function,
    scheduled_products,
    scheduled_transform,
    winograd_error,
)
from ptx_text import compile_ptx
from tvm import te, topi

from topi_ext.cuda.codegen.nvcc import compile_cubin, find_nvcc
from topi_ext.cuda.compute.winograd import products_shape, transformed_products
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.gemm_space import cheapest_gemm
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.winograd import schedule_transform
from topi_ext.cuda.winograd_knobs import (
    WinogradGemmKnobs,
    check_winograd,
    data_threads,
    product_of,
    result_threads,
    suits_winograd,
)
from topi_ext.cuda.winograd_space import cheapest_winograd, transforms_us, winograd_knobs
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.errors import CudaError

SM_75, SM_80, SM_90 = (MULTIPROCESSORS[arch] for arch in ("sm_75", "sm_80", "sm_90"))

BOUNDS = {2: 1e-6, 4: 5e-6}
"""Largest errors by the size of the tile: what is measured on CPUs after 256 channels, and room."""


def convolution(
    batch: int, image: tuple[int, int], channels: tuple[int, int], padding: tuple[int, ...] = (1,) * 4
) -> GemmConvolution:
    return workload(batch, image, channels, padding=padding, dtype="float32")


def knobs(tile: int, block_m: int = 32, block_n: int = 32, stages: int = 2) -> WinogradGemmKnobs:
    return WinogradGemmKnobs(tile, GemmKnobs("fma", block_m, block_n, 16, 1, 2, stages))


CASES = {
    "whole tiles": (convolution(1, (8, 8), (32, 32)), SM_80),
    "odd image": (convolution(2, (9, 7), (20, 37)), SM_80),
    "no padding": (convolution(1, (6, 9), (4, 24), (0,) * 4), SM_80),
    "uneven padding": (convolution(3, (5, 5), (12, 6), (2, 0, 1, 2)), SM_80),
    "less than a tile": (convolution(2, (1, 2), (36, 40)), SM_80),
    "wide rows": (convolution(1, (2, 23), (8, 12)), SM_80),
    "a channel": (convolution(1, (5, 6), (1, 1)), SM_80),
    "without asynchronous copies": (convolution(1, (7, 9), (20, 12)), SM_75),
}


@pytest.mark.parametrize("tile", BOUNDS)
@pytest.mark.parametrize("case", CASES)
def test_results_are_right(case: str, tile: int) -> None:
    work, sm = CASES[case]
    check_winograd(work, knobs(tile), sm)
    assert winograd_error(work, knobs(tile), sm) < BOUNDS[tile]


def check_point(case: str, seed: int) -> None:
    """A point of the space that a tuner searches computes what it should."""
    work, sm = CASES[case]
    found = random.Random(seed).choice([one for _, one in winograd_knobs(work, sm)])
    assert winograd_error(work, found, sm) < BOUNDS[found.tile], f"check_point({case!r}, {seed}): {found}"


@pytest.mark.parametrize(
    ("case", "seed"),
    [
        ("uneven padding", 0),
        *(pytest.param("odd image", seed, marks=pytest.mark.slow) for seed in range(5)),
        *(pytest.param("uneven padding", seed, marks=pytest.mark.slow) for seed in range(1, 6)),
    ],
)
def test_points_of_a_space_are_right(case: str, seed: int) -> None:
    check_point(case, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("tile", "most"), [(2, 1.5e-6), (4, 6e-6)])
def test_many_channels_round_little_more(tile: int, most: float) -> None:
    assert winograd_error(convolution(1, (8, 8), (512, 32)), knobs(tile), SM_80) < most


def test_what_follows_the_results_must_be_an_epilogue() -> None:
    """A sum over channels is none; and what has no transform in it is no concern of this schedule."""
    work = convolution(1, (8, 8), (8, 8))
    products = te.placeholder(products_shape(work, knobs(2)), "float32", "products")
    result = transformed_products(products, work, knobs(2))
    assert schedule_transform(te.create_prim_func([products, topi.sum(result, axis=[3])])) is None
    assert schedule_transform(te.create_prim_func([products, topi.nn.relu(products)])) is None


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("tile", BOUNDS)
def test_transforms_move_vectors_and_spill_nothing(tile: int, arch: str) -> None:
    work, width = convolution(2, (14, 13), (64, 32)), {2: "v4", 4: "v2"}[tile]
    places, results = (tile + 2) ** 2, tile**2
    functions = {
        # Bias and residual are read once for each result, or fewer times.
        "image": (image_function(work, knobs(tile)), (places, places), places),
        "result": (result_function(work, knobs(tile)), (places, places + 2 * results), results),
    }
    for name, (func, (least, most), written) in functions.items():
        source = cuda_source(scheduled_transform(func), MULTIPROCESSORS[arch])
        text = compile_ptx(source, arch)
        loads = re.findall(r"ld\.global(?:\.nc)?\.(\w+)", text)
        stores = re.findall(r"st\.global\.(\w+)", text)
        assert set(loads) == set(stores) == {width}, name
        assert least <= len(loads) <= most, name
        assert len(stores) == written, name
        assert ".local" not in text, name
        (used,) = compile_cubin(source, arch).resources.values()
        assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0), name
        assert used.registers <= 128, name


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_product_is_copied_in_lines_and_spills_nothing(arch: str) -> None:
    work, sm = convolution(32, (28, 28), (128, 128)), MULTIPROCESSORS[arch]
    found = cheapest_winograd(work, sm)
    assert found is not None
    source = cuda_source(scheduled_products(work, found[1], sm), sm)
    text = compile_ptx(source, arch)
    patterns = [r"fma\.rn\.f32", r"cp\.async\.cg\.shared\.global", r"ld\.shared\.v4", r"st\.global\.v4"]
    assert [pattern for pattern in patterns if not re.search(pattern, text)] == []
    (used,) = compile_cubin(source, arch).resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kernel": (5, 5)}, "Winograd is for 3x3 kernels of float32 without strides, dilation and groups"),
        ({"strides": (1, 2)}, "Winograd is for 3x3 kernels of float32 without strides, dilation and groups"),
        ({"dilation": (2, 2)}, "Winograd is for 3x3 kernels of float32 without strides, dilation and groups"),
        ({"groups": 4}, "Winograd is for 3x3 kernels of float32 without strides, dilation and groups"),
        ({"dtype": "tf32"}, "Winograd is for 3x3 kernels of float32 without strides, dilation and groups"),
        ({"dtype": "float16"}, "Winograd is for 3x3 kernels of float32 without strides, dilation and groups"),
        ({"batch": 1 << 12, "in_height": 256, "in_width": 256}, r"\d+ elements between two kernels"),
    ],
    ids=str,
)
def test_workloads_that_do_not_fit_are_named(change: dict, problem: str) -> None:
    work = replace(convolution(1, (14, 14), (64, 64)), **change)
    with pytest.raises(CudaError, match=f"^knobs .* do not fit .*: {problem}$"):
        check_winograd(work, knobs(4), SM_80)
    assert suits_winograd(work) == ("elements" in problem)
    assert list(winograd_knobs(work, SM_80)) == []


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (replace(knobs(4), tile=3), "no tiles of 3 results"),
        (knobs(4, stages=99), r"\d+ bytes of shared memory of \d+"),
        (replace(knobs(4), product=replace(knobs(4).product, split_k=2)), "slices of the depth in a grouped"),
        (replace(knobs(4), product=GemmKnobs("mma", 64, 64, 16, 2, 2, 2)), "mma for float32"),
    ],
)
def test_knobs_that_do_not_fit_are_named(found: WinogradGemmKnobs, problem: str) -> None:
    with pytest.raises(CudaError, match=f"^knobs .* do not fit .*: {problem}"):
        check_winograd(convolution(1, (14, 14), (64, 64)), found, SM_80)


@pytest.mark.parametrize("fields", [{"algorithm": "winograd"}, {**knobs(2).to_dict(), "tile": "2"}])
def test_fields_of_other_knobs_are_refused(fields: dict) -> None:
    with pytest.raises(CudaError, match=r"^\{.*\} are no knobs of Winograd's convolution$"):
        WinogradGemmKnobs.from_dict(fields)


def test_a_place_of_a_tile_is_a_group_of_the_product() -> None:
    product = product_of(convolution(3, (9, 14), (20, 37)), 4)
    assert (product.groups, product.rows) == (36, 3 * 3 * 4)
    assert (product.depth, product.columns) == (20, 37)


@pytest.mark.parametrize("tile", BOUNDS)
@pytest.mark.parametrize("channels", [1, 3, 37, 64, 130, 1000])
def test_threads_divide_channels(tile: int, channels: int) -> None:
    work = convolution(2, (13, 11), (channels, channels))
    for threads in (data_threads(work, tile), result_threads(work, tile)):
        assert channels % threads.channels == 0
        assert threads.lanes * threads.tiles <= 128
        assert threads.vector == {2: 4, 4: 2}[tile] or channels % (2 * threads.vector)


def times(batch: int, side: int, channels: int) -> tuple[float, float]:
    work = convolution(batch, (side, side), (channels, channels))
    found = cheapest_winograd(work, SM_90)
    assert found is not None
    return cheapest_gemm(work, SM_90)[0], found[0]


def test_large_batches_are_worth_their_transforms() -> None:
    """By estimate; the more channels, the more so."""
    gains = [direct / winograd for direct, winograd in (times(32, 56, 64), times(32, 14, 256))]
    assert 1.0 < gains[0] < gains[1] < 4.0


def test_single_images_gain_less() -> None:
    """The fewer pixels, the less; on an H200 F(4, 3) took 8 us of the first and 24 of the second, direct
    kernels 19 and 17.
    """
    gains = [direct / winograd for direct, winograd in (times(1, 56, 64), times(1, 7, 512))]
    assert gains[0] > 1.3
    assert gains[1] < 1.1


def test_transforms_are_launched_and_move_every_place() -> None:
    work = convolution(32, (56, 56), (64, 64))
    places = 36 * 32 * 14 * 14 * 64 * 4 * 2
    plain = 2 * 32 * 56 * 56 * 64 * 4
    expected = (places + plain) / (SM_90.gigabytes_per_second * 1e3) + 2 * SM_90.launch_us
    assert transforms_us(work, 4, SM_90) == pytest.approx(expected)
    assert transforms_us(convolution(1, (4, 4), (4, 4)), 4, SM_90) > 2 * SM_90.launch_us


@pytest.mark.parametrize("arch", MULTIPROCESSORS)
def test_every_architecture_has_knobs_of_both_tiles(arch: str) -> None:
    work, sm = convolution(8, (14, 14), (64, 64)), MULTIPROCESSORS[arch]
    found = [one for _, one in winograd_knobs(work, sm)]
    assert {one.tile for one in found} == set(BOUNDS)
    assert len(set(found)) == len(found) > 100
    assert all(np.isfinite(estimate) for estimate, _ in winograd_knobs(work, sm))
