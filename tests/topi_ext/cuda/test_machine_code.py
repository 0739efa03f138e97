"""What nvcc makes of every kernel family: instructions, registers, no spills. Needs no GPU."""

import random
import re
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cuda_sources import cuda_source
from gpu_cases import depthwise, scheduled_depthwise, scheduled_product, workload
from machine_listing import find_nvdisasm
from ptx_text import compile_ptx

from topi_ext.cuda.codegen.nvcc import compile_cubin, find_nvcc
from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs
from topi_ext.cuda.depthwise_space import cheapest_depthwise
from topi_ext.cuda.gemm_knobs import GemmKnobs, registers
from topi_ext.cuda.gemm_space import cheapest_gemm, gemm_knobs
from topi_ext.cuda.multiplication import extents, multiplication
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS, Multiprocessor
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.workloads.convolution import BYTES

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")

SM_90 = MULTIPROCESSORS["sm_90"]
HALF = workload(1, (14, 14), (64, 64))
FLOAT = workload(1, (14, 14), (64, 64), dtype="float32")
WORKLOADS = {
    "tensor cores": HALF,
    "CUDA cores": FLOAT,
    "tf32": workload(1, (14, 14), (64, 64), dtype="tf32"),
    "bytes": workload(1, (14, 14), (64, 64), padding=(0,) * 4, dtype="uint8"),
}
FAMILIES = {
    "tensor cores": [
        r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32",
        r"ldmatrix\.sync\.aligned\.m8n8\.x4",
        r"cp\.async\.cg\.shared\.global",
        r"ld\.shared\.v4",
    ],
    "tf32": [
        r"mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.tf32\.tf32\.f32",
        r"cvt\.rna\.tf32\.f32",
        r"ldmatrix\.sync\.aligned\.m8n8\.x4",
        r"cp\.async\.cg\.shared\.global",
        r"st\.shared\.v2",
    ],
    "bytes": [
        r"mma\.sync\.aligned\.m16n8k32\.row\.col\.(satfinite\.)?s32\.u8\.s8\.s32",
        r"ldmatrix\.sync\.aligned\.m8n8\.x4",
        r"cp\.async\.cg\.shared\.global",
    ],
    "CUDA cores": [r"fma\.rn\.f32", r"cp\.async\.cg\.shared\.global", r"ld\.shared\.v4"],
    "depthwise": [r"fma\.rn\.f32", r"ld\.global(\.nc)?\.v4\.u16", r"st\.global\.v4"],
    "depthwise, shared weights": [
        r"fma\.rn\.f32",
        r"ld\.global(\.nc)?\.v4\.u32",
        r"ld\.shared\.v4",
        r"bar\.sync",
    ],
    "depthwise of bytes": [r"mad\.lo\.s32", r"ld\.global(\.nc)?\.u32"],
}
DEPTHWISE = {
    "depthwise": (depthwise(1, (56, 56), 144), DepthwiseKnobs(4, 2, 2, 12, 2, 4)),
    "depthwise, shared weights": (
        depthwise(1, (14, 14), 64, (7, 7), padding=(3,) * 4),
        DepthwiseKnobs(8, 1, 2, 8, 2, 7, "shared"),
    ),
    "depthwise of bytes": (depthwise(1, (14, 14), 64, dtype="uint8"), DepthwiseKnobs(4, 2, 2, 16, 2, 4)),
}


def source_of(family: str, sm: Multiprocessor) -> str:
    if family in DEPTHWISE:
        return cuda_source(scheduled_depthwise(*DEPTHWISE[family]), sm)
    work = WORKLOADS[family]
    return cuda_source(scheduled_product(work, warp_wide(work, sm), sm), sm)


def warp_wide(work: GemmConvolution, sm: Multiprocessor) -> GemmKnobs:
    """What is chosen where there is no wgmma, whose kernels are looked at by themselves."""
    return cheapest_gemm(work, replace(sm, wgmma_gain=0.0))[1]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("family", FAMILIES)
def test_instructions_and_registers(family: str, arch: str) -> None:
    source = source_of(family, MULTIPROCESSORS[arch])
    text = compile_ptx(source, arch)
    missing = [pattern for pattern in FAMILIES[family] if not re.search(pattern, text)]
    assert missing == []
    (used,) = compile_cubin(source, arch).resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert used.registers <= 168


GROUPED = {
    "float16": ("m64n128k16.f32.f16.f16", GemmKnobs("wgmma", 128, 128, 64, 8, 1, 3)),
    "tf32": ("m64n256k8.f32.tf32.tf32", GemmKnobs("wgmma", 128, 256, 32, 8, 1, 2)),
    "uint8": ("m64n256k32.s32.u8.s8", GemmKnobs("wgmma", 64, 256, 128, 4, 1, 2)),
    "int8": ("m64n64k32.s32.s8.s8", GemmKnobs("wgmma", 64, 64, 64, 4, 1, 4)),
}


@pytest.mark.parametrize("dtype", GROUPED)
def test_products_of_four_warps(dtype: str) -> None:
    shape, knobs = GROUPED[dtype]
    padding = (0,) * 4 if dtype in BYTES else (1,) * 4
    work = workload(2, (14, 14), (64, 256), padding=padding, dtype=dtype)
    source = cuda_source(scheduled_product(work, knobs, SM_90), SM_90)
    text = compile_ptx(source, "sm_90")
    patterns = [
        r"\.target sm_90a",
        rf"wgmma\.mma_async\.sync\.aligned\.{shape}",
        r"wgmma\.fence\.sync\.aligned",
        r"wgmma\.commit_group\.sync\.aligned",
        r"wgmma\.wait_group\.sync\.aligned 0",
        r"fence\.proxy\.async\.shared::cta",
        r"cp\.async\.cg\.shared\.global",
        r"\.extern \.shared \.align 1024",
    ]
    assert [pattern for pattern in patterns if not re.search(pattern, text)] == []
    assert ("ldmatrix" in text, "cvt.rna.tf32" in text) == (dtype == "tf32",) * 2
    assert ".local" not in text
    cubin = compile_cubin(source, "sm_90")
    (used,) = cubin.resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads, used.shared) == (0, 0, 0, 0)
    assert used.registers <= registers(work, knobs, SM_90)
    assert not cubin.serialized


BULK = {
    "float16": ((3, 3), GemmKnobs("wgmma", 128, 128, 64, 8, 1, 3, copies="bulk")),
    "tf32": ((3, 3), GemmKnobs("wgmma", 128, 256, 32, 8, 1, 2, copies="bulk")),
    "uint8": ((1, 1), GemmKnobs("wgmma", 64, 256, 32, 4, 1, 2, copies="bulk")),
}


def bulk_workload(dtype: str) -> GemmConvolution:
    kernel = BULK[dtype][0]
    return workload(2, (14, 14), (128, 256), kernel, padding=(kernel[0] // 2,) * 4, dtype=dtype)


def bulk_source(dtype: str) -> str:
    return cuda_source(scheduled_product(bulk_workload(dtype), BULK[dtype][1], SM_90), SM_90)


@pytest.mark.parametrize("dtype", BULK)
def test_bulk_copies(dtype: str) -> None:
    (kernel, knobs), work, source = BULK[dtype], bulk_workload(dtype), bulk_source(dtype)
    text = compile_ptx(source, "sm_90")
    tensor = r"cp\.async\.bulk\.tensor\.{}\.shared::cluster\.global\.{}\.mbarrier::complete_tx::bytes"
    patterns = [
        r"\.target sm_90a",
        r"\.param \.align (64|128) \.b8 \w+\[128\]",
        r"mbarrier\.init\.shared::cta\.b64",
        r"fence\.mbarrier_init\.release\.cluster",
        r"mbarrier\.arrive\.expect_tx\.shared::cta\.b64",
        r"mbarrier\.try_wait\.parity\.shared::cta\.b64",
        tensor.format("2d", "tile"),
        *([tensor.format("4d", "im2col")] if kernel != (1, 1) else []),
        r"wgmma\.wait_group\.sync\.aligned " + ("0" if dtype == "tf32" else "1"),
    ]
    assert [pattern for pattern in patterns if not re.search(pattern, text)] == []
    assert "cp.async.cg" not in text
    cubin = compile_cubin(source, "sm_90")
    (used,) = cubin.resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads, used.shared) == (0, 0, 0, 0)
    assert used.registers <= registers(work, knobs, SM_90)
    assert not cubin.serialized


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", BULK)
def test_points_of_a_space_with_bulk_copies_neither_spill_nor_wait(dtype: str, seed: int) -> None:
    check_bulk_point(dtype, seed)


def check_bulk_point(dtype: str, seed: int) -> None:
    padding = (0,) * 4 if dtype in BYTES else (1,) * 4
    work = workload(2, (14, 14), (256, 160), padding=padding, dtype=dtype)
    found = [knobs for _, knobs in gemm_knobs(work, SM_90) if knobs.copies == "bulk"]
    knobs = random.Random(seed).choice(found)
    cubin = compile_cubin(cuda_source(scheduled_product(work, knobs, SM_90), SM_90), "sm_90")
    (used,) = cubin.resources.values()
    again = f"check_bulk_point({dtype!r}, {seed}): {knobs}"
    assert (used.stack, used.spill_stores, cubin.serialized) == (0, 0, False), again


def test_products_that_wait_for_one_another_are_found() -> None:
    """Sums that are used between two products without a wait: the compiler waits for each."""
    knobs = GROUPED["float16"][1]
    source = cuda_source(scheduled_product(HALF, knobs, SM_90), SM_90)
    commit = "topi_ext_wgmma_commit();"
    begin = source.index(commit, source.index("main_kernel("))
    broken = source[:begin] + "product_shared_dyn_warp_ptr[0] += 1.0f;" + source[begin:]
    assert not compile_cubin(source, "sm_90").serialized
    assert compile_cubin(broken, "sm_90").serialized


@pytest.mark.parametrize("dtype", BYTES)
def test_borders_of_bytes_compile(dtype: str) -> None:
    """What lies around the image is 3, sixteen of it at once."""
    work = workload(2, (8, 11), (64, 4), (1, 1), (1, 2), (3, 1, 2, 1), dtype=dtype)
    sm, knobs = MULTIPROCESSORS["sm_80"], GemmKnobs("mma", 64, 16, 64, 4, 1, 2)
    (used,) = compile_cubin(cuda_source(scheduled_product(work, knobs, sm), sm), "sm_80").resources.values()
    assert (used.stack, used.spill_stores) == (0, 0)


@pytest.mark.parametrize(("dtype", "type_"), [("uint8", "u32"), ("int8", "s32")])
def test_dot_products_of_bytes_before_turing(dtype: str, type_: str) -> None:
    sm = MULTIPROCESSORS["sm_75"]
    work = workload(1, (14, 14), (64, 64), dtype=dtype)
    knobs = cheapest_gemm(work, MULTIPROCESSORS["sm_70"])[1]
    source = cuda_source(scheduled_product(work, knobs, sm), sm)
    text = compile_ptx(source, "sm_75")
    patterns = [f"dp4a.{type_}.s32", "ld.shared.v4.u32", "ld.global.nc.v4.u32", "st.shared.v4.u32"]
    assert [pattern for pattern in patterns if pattern not in text] == []
    assert "ld.global.nc.u8" not in text
    (used,) = compile_cubin(source, "sm_75").resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)


def test_large_windows_do_not_spill() -> None:
    sm, work = MULTIPROCESSORS["sm_90"], depthwise(1, (7, 7), 768, (7, 7), padding=(3,) * 4)
    knobs = cheapest_depthwise(work, sm)[1]
    (used,) = compile_cubin(cuda_source(scheduled_depthwise(work, knobs), sm), "sm_90").resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)


OLDER = {
    "float16": (
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        "HMMA.1688.F32 ",
        GemmKnobs("mma", 128, 64, 32, 2, 2, 2),
    ),
    "uint8": (
        "mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32",
        "IMMA.8816.U8.S8 ",
        GemmKnobs("mma", 128, 64, 64, 2, 2, 2),
    ),
    "int8": (
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32",
        "IMMA.8816.S8.S8 ",
        GemmKnobs("mma", 64, 64, 128, 2, 2, 2),
    ),
}


def turing_source(dtype: str) -> str:
    sm, work = MULTIPROCESSORS["sm_75"], workload(1, (14, 14), (64, 64), dtype=dtype)
    return cuda_source(scheduled_product(work, OLDER[dtype][2], sm), sm)


@pytest.mark.parametrize("dtype", OLDER)
def test_smaller_instructions_of_turing(dtype: str) -> None:
    instruction, source = OLDER[dtype][0], turing_source(dtype)
    text = compile_ptx(source, "sm_75")
    expected = [instruction, "ldmatrix.sync.aligned.m8n8.x4", "ld.global.nc.v4.u32", "st.shared.v4"]
    assert [pattern for pattern in expected if pattern not in text] == []
    (used,) = compile_cubin(source, "sm_75").resources.values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)


TILES = {
    "tensor cores": GemmKnobs("mma", 64, 64, 32, 2, 2, 3),
    "CUDA cores": GemmKnobs("fma", 64, 64, 16, 2, 2, 3),
    "tf32": GemmKnobs("mma", 64, 64, 32, 2, 2, 3),
    "bytes": GemmKnobs("mma", 64, 64, 64, 2, 2, 3),
}
"""Neither small, where a few registers are many, nor what is chosen, which need not be what was fitted."""


def test_registers_are_about_as_many_as_estimated() -> None:
    """For most kernels; ptxas rounds up to what as many warps as would fit can have."""
    ratios = []
    for family, work in WORKLOADS.items():
        for arch in ("sm_80", "sm_90"):
            sm, knobs = MULTIPROCESSORS[arch], TILES[family]
            source = cuda_source(scheduled_product(work, knobs, sm), sm)
            (used,) = compile_cubin(source, arch).resources.values()
            ratios.append(registers(work, knobs, sm) / used.registers)
    for dtype, (_, _, knobs) in OLDER.items():
        (used,) = compile_cubin(turing_source(dtype), "sm_75").resources.values()
        work = workload(1, (14, 14), (64, 64), dtype=dtype)
        ratios.append(registers(work, knobs, MULTIPROCESSORS["sm_75"]) / used.registers)
    assert 0.85 <= statistics.median(ratios) <= 1.15, ratios
    assert 2 * sum(0.8 <= ratio <= 1.25 for ratio in ratios) > len(ratios), ratios
    assert 0.6 <= min(ratios) <= max(ratios) <= 1.6, ratios


@pytest.mark.skipif(find_nvdisasm() is None, reason="nvdisasm is not installed")
@pytest.mark.parametrize("dtype", OLDER)
def test_machine_instructions_of_turing(dtype: str, tmp_path: Path) -> None:
    """Each is one of the machine: ptxas could as well have made several of it."""
    _, machine, knobs = OLDER[dtype]
    path = tmp_path / "kernel.cubin"
    path.write_bytes(compile_cubin(turing_source(dtype), "sm_75").code)
    listing = subprocess.run([find_nvdisasm(), path], capture_output=True, text=True, check=True).stdout
    rows, columns, depth = extents(multiplication(dtype).shape_on(75))
    of_tile = knobs.warp_m * knobs.warp_n * knobs.block_k // (rows * columns * depth)
    # The loop over tiles, and the last one, or all of them.
    turns, rest = divmod(listing.count(machine), of_tile)
    assert (turns > 0, rest) == (True, 0)


def test_older_tensor_cores() -> None:
    """wmma of sm_70, compiled for the oldest architecture that every nvcc knows."""
    sm = MULTIPROCESSORS["sm_75"]
    knobs = cheapest_gemm(HALF, MULTIPROCESSORS["sm_70"])[1]
    source = cuda_source(scheduled_product(HALF, knobs, sm), sm)
    text = compile_ptx(source, "sm_75")
    assert "wmma.mma.sync" in text
    # The image is read in runs of channels, whatever its border needs.
    assert re.search(r"ld\.global(\.nc)?\.v4\.u32", text)
    (used,) = compile_cubin(source, "sm_75").resources.values()
    # ptxas stops at 128 registers here and keeps a pointer or two in local memory.
    assert used.spill_stores <= 16
