"""Knobs of implicit GEMMs worth trying, each with its estimated microseconds.

The model counts what a multiprocessor has to do for a thread block and how many blocks it holds at once:
blocks take shared memory, registers and places for warps, and what they wait for memory hides behind the
others' work.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np

from topi_ext.cuda.codegen.wgmma import GROUP, GROUP_ROWS, WGMMA_DTYPES
from topi_ext.cuda.compute.implicit_gemm import padded
from topi_ext.cuda.gemm_knobs import (
    LANE_COLUMNS,
    LANE_ROWS,
    MOST_REGISTERS,
    SUM_BYTES,
    Copies,
    GemmKnobs,
    Instruction,
    misfit,
    registers,
    shared_bytes,
)
from topi_ext.cuda.multiplication import MULTIPLICATIONS, SIDE
from topi_ext.cuda.multiprocessor import SCHEDULERS, Multiprocessor
from topi_ext.cuda.stacked import Amount, Count, first_fitting, greatest, least, rounded_up, stacked
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.workloads.convolution import BYTES

LATENCY_CYCLES = 480
"""From asking for a tile of global memory to having it."""

BARRIER_CYCLES = 83
"""The barrier and the loop around a tile."""

SHARED_BYTES_PER_CYCLE = 116
"""What products and copies together get of 128."""

LINE_BYTES = 128
"""A line of the first-level cache."""

LINE_CYCLES = 1.56
"""Copies that threads issue touch one line of the first-level cache after the other, and a short row of a
tile costs as much as a whole line. Bulk copies pass it by."""

VECTOR_BYTES, READ_CYCLES = 16, 3
"""What a thread of CUDA cores reads from shared memory at once, and how long that takes, also where many
lanes read the same."""

RESULT_CYCLES, RESULT_BYTE_CYCLES = 0.06, 0.03
"""For each result of a block on its way from registers to memory, and for each of its bytes."""

EPILOGUE_CYCLES = 0.08
"""For each result, for bias and activation."""

RESULT_WARPS, EPILOGUE_WARPS = 2.5, 8
"""Warps of a multiprocessor that such work keeps busy; fewer wait for themselves."""

_SUM_US = 1.4
"""The least that the kernel takes which adds slices of the depth."""

_BLOCKS = (16, 32, 64, 128, 256)
_WARPS = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2))
_ROW_BYTES = {
    "mma": (32, 64, 128),
    "wgmma": (64, 128),
    "wmma": (32, 64, 128),
    "fma": (64, 128),
    "dp4a": (64, 128),
}
"""Lengths of a tile's rows."""

_LARGE = 128 * 128
"""Results of a block whose products take longer than what is around them."""

_SLICES = (1, 2, 3, 4, 6, 8, 12, 16)


def instructions_of(dtype: str, multiprocessor: Multiprocessor) -> tuple[Instruction, ...]:
    """What multiplies a dtype on an architecture."""
    if dtype == "float32":
        return ("fma",)
    if not MULTIPLICATIONS[dtype].shape_on(multiprocessor.capability):
        return ("dp4a",) if dtype in BYTES else ("wmma",)
    grouped = multiprocessor.wgmma_gain and dtype in WGMMA_DTYPES
    return ("mma", "wgmma") if grouped else ("mma",)


def gemm_knobs(
    workload: GemmConvolution, multiprocessor: Multiprocessor
) -> Iterator[tuple[float, GemmKnobs]]:
    """All knobs that fit, with their estimates."""
    for tiles in _tilings(workload, multiprocessor):
        estimates = _estimates(workload, tiles.stacked, multiprocessor).tolist()
        for estimate, knobs in zip(estimates, tiles.choices, strict=True):
            if misfit(workload, knobs, multiprocessor) is not None:
                continue
            yield estimate, knobs
            if workload.rows > knobs.block_m and workload.columns > knobs.block_n:
                # What blocks that go along columns differ in is not estimated.
                other = replace(knobs, order="columns")
                if misfit(workload, other, multiprocessor) is None:
                    yield estimate, other


@dataclass(frozen=True)
class _Tiling:
    """Ways to divide products by one instruction, whether they fit or not, whose blocks go along rows."""

    choices: tuple[GemmKnobs, ...]
    stacked: GemmKnobs


def _tilings(workload: GemmConvolution, multiprocessor: Multiprocessor) -> list[_Tiling]:
    size, has_stages = workload.element_bytes, multiprocessor.has_async_copies
    return [_tiling(each, size, has_stages) for each in instructions_of(workload.dtype, multiprocessor)]


@lru_cache
def _tiling(instruction: Instruction, element_bytes: int, has_stages: bool) -> _Tiling:
    choices = []
    counts = (2, 3, 4) if has_stages else (2,)
    copies: tuple[Copies, ...] = ("async", "bulk") if instruction == "wgmma" else ("async",)
    depths = [row // element_bytes for row in _ROW_BYTES[instruction]]
    for block_m, block_n, block_k in product(_BLOCKS, _BLOCKS, depths):
        if not 32 * 32 <= block_m * block_n <= 128 * 256:
            continue
        warps = ((block_m // SIDE, 1),) if instruction == "wgmma" else _WARPS
        for (warps_m, warps_n), stages, split_k, way in product(warps, counts, _SLICES, copies):
            tile = block_m, block_n, block_k, warps_m, warps_n
            choices.append(GemmKnobs(instruction, *tile, stages, split_k, copies=way))
    return _Tiling(tuple(choices), stacked(choices))


@lru_cache(maxsize=4096)
def cheapest_gemm(workload: GemmConvolution, multiprocessor: Multiprocessor) -> tuple[float, GemmKnobs]:
    """The knobs with the least estimated microseconds; of several, those that can lose least by what the
    model leaves out.
    """
    found = []
    for tiling in _tilings(workload, multiprocessor):
        knobs = tiling.stacked
        estimates = _estimates(workload, knobs, multiprocessor)
        estimates = np.where(_holds(workload, knobs, multiprocessor), estimates, inf)
        keys = np.stack(np.broadcast_arrays(estimates, *_risk(workload, knobs)))
        place = first_fitting(
            tiling.choices, keys, lambda choice: misfit(workload, choice, multiprocessor) is None
        )
        if place is not None:
            found.append((keys[:, place].tolist(), tiling.choices[place]))
    (estimate, *_), chosen = min(found, key=lambda each: each[0])
    return estimate, chosen


def _holds(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> Any:
    """Is there place for a block, and work for all slices? Said of many in one go, it leaves few that
    :func:`~topi_ext.cuda.gemm_knobs.misfit` must look at.
    """
    used = registers(workload, knobs, multiprocessor)
    holds = shared_bytes(workload, knobs, multiprocessor) <= multiprocessor.block_shared_bytes
    holds &= (used <= MOST_REGISTERS) & (used * knobs.threads <= multiprocessor.registers)
    most = -(-workload.depth // knobs.block_k) if workload.groups == 1 else 1
    return holds & (knobs.split_k <= most)


def _risk(workload: GemmConvolution, knobs: GemmKnobs) -> tuple[Any, Count, Count]:
    """Less is better, among knobs of one estimate.

    Where large tiles wait for the second-level cache, wgmma leaves the cores that issue copies idle, and they
    are late less often. Stages that take no place from other blocks bridge the latency of a busy memory.
    """
    safe = (knobs.block_m * knobs.block_n >= _LARGE) & (knobs.instruction == "wgmma")
    tiles = padded(workload, knobs)[2] // knobs.split_k // knobs.block_k
    return np.logical_not(safe), -least(knobs.stages, tiles), knobs.stages


def resident_blocks(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> Count:
    """Thread blocks that one multiprocessor holds at once."""
    shared = shared_bytes(workload, knobs, multiprocessor)
    return multiprocessor.resident(shared, registers(workload, knobs, multiprocessor), knobs.warps)


def gemm_us(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> float:
    """Microseconds of the kernel, and of the one that adds the slices.

    The constants are fitted to 2068 kernels of float16 that an H100 ran, of layers of ResNet-50, MobileNetV2
    and EfficientNet-B0 with one image and with 32. Without an epilogue, which those kernels lack and whose
    cost is reckoned, estimates of two thirds of them are within 15%. Those of CUDA cores are fitted to 63
    kernels of float32 that an H200 ran, direct ones and Winograd's: off by 11%.
    """
    return float(_estimates(workload, knobs, multiprocessor))


def _estimates(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> Amount:
    """:func:`gemm_us`, of stacked knobs all of them."""
    rows, columns, depth = padded(workload, knobs)
    size = workload.element_bytes
    blocks = rows // knobs.block_m * (columns // knobs.block_n) * workload.groups * knobs.split_k
    tiles = depth // knobs.split_k // knobs.block_k
    resident = least(
        resident_blocks(workload, knobs, multiprocessor), rounded_up(blocks / multiprocessor.count)
    )
    work = _tile_cycles(workload, knobs, multiprocessor, resident) * resident
    waited = LATENCY_CYCLES / greatest(knobs.stages - 1, 1)
    turn = np.hypot(work, waited) + BARRIER_CYCLES
    is_split = knobs.split_k > 1
    result_bytes = np.where(is_split, SUM_BYTES, size)
    warps = resident * knobs.warps
    each = (RESULT_CYCLES + RESULT_BYTE_CYCLES * result_bytes) / least(1.0, warps / RESULT_WARPS)
    each = each + np.where(is_split, 0.0, EPILOGUE_CYCLES / least(1.0, warps / EPILOGUE_WARPS))
    finish = knobs.block_m * knobs.block_n * each * resident
    waves = rounded_up(blocks / (multiprocessor.count * resident))
    cycles = waves * (tiles * turn + LATENCY_CYCLES + finish)
    moved = prod(workload.data_shape) * size
    moved += workload.out_channels * workload.depth * size + workload.rows * workload.out_channels * size
    bandwidth = multiprocessor.gigabytes_per_second * 1e3
    busy = np.hypot(cycles / (multiprocessor.gigahertz * 1e3), moved / bandwidth)
    partial = rows * columns * SUM_BYTES * knobs.split_k
    # Partial sums are written and read, mostly within the second-level cache.
    added = max(_SUM_US, multiprocessor.launch_us) + 2 * partial / (2 * bandwidth)
    return busy + multiprocessor.launch_us + np.where(is_split, added, 0.0)


def _tile_cycles(
    workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor, resident: Count
) -> Amount:
    """Cycles of the busiest unit for the tiles of one turn of a block, of which ``resident`` take turns."""
    size = workload.element_bytes
    # Fewer warps leave some of the schedulers idle.
    busy = least(1.0, resident * knobs.warps / SCHEDULERS)
    rate = multiprocessor.products(workload.dtype, knobs.instruction) * busy
    multiply = knobs.block_m * knobs.block_n * knobs.block_k / rate
    readers, read_rows = knobs.warps, knobs.warp_m
    if knobs.instruction == "wgmma":
        # Four warps read what they multiply once.
        readers, read_rows = knobs.warps // GROUP, GROUP_ROWS
    fragments = readers * (read_rows + knobs.warp_n) * knobs.block_k * size
    row_bytes = knobs.block_k * size
    arriving = (knobs.block_m + knobs.block_n) * row_bytes
    if knobs.instruction == "fma":
        each = knobs.warp_m // LANE_ROWS + knobs.warp_n // LANE_COLUMNS
        reads = knobs.warps * each * row_bytes // VECTOR_BYTES * READ_CYCLES
        # A warp multiplies when it has what it reads; alone on its scheduler it does either.
        multiply = np.hypot(multiply, reads) * (1 + SCHEDULERS / (resident * knobs.warps))
    shared = (fragments + arriving) / SHARED_BYTES_PER_CYCLE
    level2 = arriving / multiprocessor.l2_bytes_per_cycle
    # A copy of fewer than 16 bytes costs as many instructions for less.
    copies = knobs.block_m * knobs.block_k / workload.copy_elements * 8 / 128
    lines = (knobs.block_m + knobs.block_n) * greatest(1.0, row_bytes / LINE_BYTES) * LINE_CYCLES
    by_threads = np.where(knobs.copies == "bulk", 0.0, greatest(copies, lines))
    return greatest(multiply, shared, level2, by_threads)
