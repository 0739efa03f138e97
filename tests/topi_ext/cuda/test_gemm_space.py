"""Knobs: what fits, and what the model prefers."""

import json
import re
from dataclasses import replace

import pytest
from gpu_cases import lowered, scheduled_product, shared_size, workload

from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs
from topi_ext.cuda.gemm_knobs import GemmKnobs, check, misfit, shared_bytes
from topi_ext.cuda.gemm_space import cheapest_gemm, gemm_knobs, gemm_us, instructions_of, resident_blocks
from topi_ext.cuda.kernel_knobs import KernelKnobs
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.errors import CudaError

SM_80, SM_90 = MULTIPROCESSORS["sm_80"], MULTIPROCESSORS["sm_90"]
WORK = workload(1, (14, 14), (64, 64))
KNOBS = GemmKnobs("mma", 64, 64, 32, 2, 2, 3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"instruction": "hmma"}, "unknown instruction 'hmma'"),
        ({"order": "diagonal"}, "unknown order 'diagonal'"),
        ({"stages": 0}, "a tile is empty"),
        ({"warps_m": 3}, "3 warps of 64 rows"),
        ({"block_k": 24}, "a depth of 24 is no multiple of 16"),
        ({"block_m": 256, "block_n": 256, "stages": 4}, r"\d+ bytes of shared memory of 166912"),
        ({"split_k": 99}, "99 slices of 18 tiles"),
        ({"instruction": "fma"}, "fma for float16"),
        ({"block_k": 128}, r"rows of 256 bytes; use one of \(32, 64, 128\)"),
    ],
)
def test_misfits_are_named(change: dict, problem: str) -> None:
    with pytest.raises(CudaError, match=f"^knobs .* do not fit .*: {problem}$"):
        check(WORK, replace(KNOBS, **change), SM_80)


def test_older_architectures_have_neither_the_instruction_nor_the_copies() -> None:
    sm_70, sm_75 = MULTIPROCESSORS["sm_70"], MULTIPROCESSORS["sm_75"]
    assert misfit(WORK, replace(KNOBS, stages=2), sm_70) == "sm_70 has no mma of float16"
    assert misfit(replace(WORK, dtype="tf32"), replace(KNOBS, stages=2), sm_75) == "sm_75 has no mma of tf32"
    assert misfit(WORK, replace(KNOBS, stages=2), sm_75) is None
    for instruction in ("mma", "wmma"):
        knobs = replace(KNOBS, instruction=instruction)
        assert misfit(WORK, knobs, sm_75) == "sm_75 has no asynchronous copies"


@pytest.mark.parametrize(
    ("arch", "instructions"),
    [
        ("sm_70", [("wmma",), ("dp4a",), ("dp4a",), ("fma",)]),
        ("sm_75", [("mma",), ("mma",), ("mma",), ("fma",)]),
        ("sm_86", [("mma",), ("mma",), ("mma",), ("fma",)]),
        ("sm_90", [("mma", "wgmma"), ("mma", "wgmma"), ("mma", "wgmma"), ("fma",)]),
    ],
)
def test_instructions_are_those_of_the_architecture(arch: str, instructions: list[tuple[str, ...]]) -> None:
    dtypes = ("float16", "uint8", "int8", "float32")
    assert [instructions_of(dtype, MULTIPROCESSORS[arch]) for dtype in dtypes] == instructions


@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("image", [(7, 7), (56, 56)])
def test_tensor_cores_are_no_slower_than_dot_products(batch: int, image: tuple[int, int]) -> None:
    """By estimate, why sm_75 has no dp4a in its space: with the rate that its CUDA cores have for it."""
    sm_75 = MULTIPROCESSORS["sm_75"]
    work = workload(batch, image, (64, 64), dtype="uint8")
    cores = replace(sm_75, byte_macs=4 * sm_75.float_macs)
    dots = min(
        gemm_us(work, replace(knobs, instruction="dp4a"), cores)
        for _, knobs in gemm_knobs(work, sm_75)
        if misfit(work, replace(knobs, instruction="dp4a"), cores) is None
    )
    assert cheapest_gemm(work, sm_75)[0] <= dots


def test_wgmma_is_of_one_architecture() -> None:
    wgmma = replace(KNOBS, instruction="wgmma", warps_m=4, warps_n=1)
    assert misfit(WORK, wgmma, SM_80) == "sm_80 has no wgmma"
    assert misfit(WORK, replace(wgmma, stages=2), MULTIPROCESSORS["sm_75"]) == "sm_75 has no wgmma"
    assert misfit(WORK, wgmma, SM_90) is None
    assert misfit(WORK, wgmma, replace(SM_90, wgmma_gain=0.0)) == "sm_90 has no wgmma"
    assert misfit(replace(WORK, dtype="float32"), replace(wgmma, block_k=16), SM_90) == "wgmma for float32"


@pytest.mark.parametrize(
    ("change", "divided"),
    [
        ({"warps_m": 2, "warps_n": 2}, "64 rows of 64 columns by 2 x 2"),
        ({"warps_m": 2, "block_m": 32}, "32 rows of 64 columns by 2 x 1"),
        ({"block_m": 128}, "128 rows of 64 columns by 4 x 1"),
        ({"block_n": 272, "stages": 2}, "64 rows of 272 columns by 4 x 1"),
    ],
)
def test_wgmma_divides_a_tile_one_way(change: dict, divided: str) -> None:
    wgmma = replace(KNOBS, instruction="wgmma", warps_m=4, warps_n=1)
    problem = f"wgmma divides {divided} warps; each has 16 rows of up to 256, four at once"
    assert misfit(WORK, replace(wgmma, **change), SM_90) == problem


@pytest.mark.parametrize("arch", MULTIPROCESSORS)
def test_every_architecture_has_a_default_that_fits(arch: str) -> None:
    sm = MULTIPROCESSORS[arch]
    for dtype in (dtype for dtype, macs in sm.macs.items() if macs):
        work = replace(WORK, dtype=dtype)
        assert misfit(work, cheapest_gemm(work, sm)[1], sm) is None


def test_small_grids_split_their_depth_and_large_ones_do_not() -> None:
    small, large = workload(1, (7, 7), (512, 512)), workload(32, (56, 56), (64, 64))
    assert cheapest_gemm(small, SM_80)[1].split_k > 1
    assert cheapest_gemm(large, SM_80)[1].split_k == 1


def test_more_shared_memory_means_fewer_resident_blocks() -> None:
    blocks = [resident_blocks(WORK, replace(KNOBS, stages=stages), SM_80) for stages in (2, 4, 8)]
    assert blocks == sorted(blocks, reverse=True)
    assert blocks[0] > blocks[-1]


def test_a_grid_has_only_so_many_blocks_along_its_second_axis() -> None:
    work = workload(512, (128, 128), (16, 64), (1, 1), padding=(0,) * 4)
    assert misfit(work, replace(KNOBS, block_k=16), SM_80) is None
    columns = replace(KNOBS, block_k=16, order="columns")
    assert misfit(work, columns, SM_80) == "131072 blocks along the second axis of the grid"


def test_orders_are_a_choice_where_they_differ() -> None:
    several, one = workload(1, (14, 14), (64, 64)), workload(1, (14, 14), (64, 16))
    assert {knobs.order for _, knobs in gemm_knobs(several, SM_80)} == {"rows", "columns"}
    assert {knobs.order for _, knobs in gemm_knobs(one, SM_80)} == {"rows"}
    assert cheapest_gemm(several, SM_80)[1].order == "rows"


def test_a_space_has_something_to_tune() -> None:
    assert len({knobs for _, knobs in gemm_knobs(WORK, SM_80)}) > 100


DEPTHWISE = DepthwiseKnobs(4, 2, 2, 12, 2, 4)


@pytest.mark.parametrize("knobs", [KNOBS, DEPTHWISE])
def test_knobs_survive_a_log(knobs: KernelKnobs) -> None:
    assert type(knobs).from_dict(json.loads(json.dumps(knobs.to_dict()))) == knobs


@pytest.mark.parametrize(
    ("knobs", "change"),
    [
        (KNOBS, {"tile": 1}),
        (KNOBS, {"block_m": 64.0}),
        (KNOBS, {"stages": True}),
        (KNOBS, {"algorithm": "depthwise"}),
        (DEPTHWISE, {"vector": "4"}),
        (DEPTHWISE, {"algorithm": "implicit_gemm"}),
    ],
)
def test_other_fields_are_no_knobs(knobs: KernelKnobs, change: dict) -> None:
    fields = knobs.to_dict() | change
    with pytest.raises(CudaError, match=f"^{re.escape(str(fields))} are no knobs of {knobs.KERNEL}$"):
        type(knobs).from_dict(fields)


def test_knobs_have_an_algorithm_and_all_their_fields() -> None:
    with pytest.raises(CudaError, match=r"^\{'tile': 1\} are no knobs of an implicit GEMM$"):
        GemmKnobs.from_dict({"tile": 1})
    for missing in ("algorithm", "block_k"):
        fields = {name: value for name, value in KNOBS.to_dict().items() if name != missing}
        with pytest.raises(CudaError, match=r"are no knobs of an implicit GEMM$"):
            GemmKnobs.from_dict(fields)


@pytest.mark.parametrize(
    ("arch", "dtype"),
    [
        *[(arch, dtype) for arch in ("sm_70", "sm_75") for dtype in ("float16", "float32", "uint8")],
        *[(arch, dtype) for arch in ("sm_80", "sm_90") for dtype in ("float16", "tf32", "float32", "uint8")],
    ],
)
def test_the_shared_memory_of_a_kernel_is_what_is_counted(arch: str, dtype: str) -> None:
    """Of the default, and of the kernel whose results are largest beside its tiles."""
    sm = MULTIPROCESSORS[arch]
    work = workload(32, (28, 28), (128, 128), dtype=dtype)

    def results_beside_tiles(knobs: GemmKnobs) -> float:
        tiles = knobs.stages * (knobs.block_m + knobs.block_n) * knobs.block_k
        return knobs.block_m * knobs.block_n / tiles

    large = max((knobs for _, knobs in gemm_knobs(work, sm)), key=results_beside_tiles)
    assert results_beside_tiles(large) * 4 > work.element_bytes
    for knobs in (cheapest_gemm(work, sm)[1], large):
        counted = shared_bytes(work, knobs, sm)
        assert counted <= sm.block_shared_bytes
        assert shared_size(lowered(scheduled_product(work, knobs, sm), sm)) == counted, knobs
