"""Knobs of implicit GEMMs worth trying, each with its estimated microseconds.

The model counts what a multiprocessor has to do for a thread block and how many blocks it holds at once:
blocks take shared memory, registers and places for warps, and what they wait for memory hides behind the
others' work.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import ceil, hypot

from topi_ext.compute.implicit_gemm import padded
from topi_ext.cuda.knobs import GemmKnobs, Instruction, misfit, registers, shared_bytes
from topi_ext.cuda.multiplication import MULTIPLICATIONS, SIDE
from topi_ext.cuda.multiprocessor import SCHEDULERS, Multiprocessor
from topi_ext.cuda.wgmma import GROUP, GROUP_ROWS, WGMMA_DTYPES
from topi_ext.cuda.workload import INTEGERS, GemmConvolution

LATENCY_CYCLES = 480
"""From asking for a tile of global memory to having it."""

BARRIER_CYCLES = 83
"""The barrier and the loop around a tile."""

SHARED_BYTES_PER_CYCLE = 116
"""What products and copies together get of 128."""

LINE_BYTES = 128
"""Of the first-level cache."""

LINE_CYCLES = 1.56
"""Copies that threads issue touch one line of the first-level cache after the other, and a short row of a
tile costs as much as a whole line. Bulk copies pass it by."""

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
        return ("dp4a",) if dtype in INTEGERS else ("wmma",)
    grouped = multiprocessor.wgmma_gain and dtype in WGMMA_DTYPES
    return ("mma", "wgmma") if grouped else ("mma",)


def gemm_knobs(
    workload: GemmConvolution, multiprocessor: Multiprocessor
) -> Iterator[tuple[float, GemmKnobs]]:
    """All knobs that fit, with their estimates."""
    for estimate, knobs in _in_rows(workload, multiprocessor):
        yield estimate, knobs
        if workload.rows > knobs.block_m and workload.columns > knobs.block_n:
            other = replace(knobs, order="columns")
            if misfit(workload, other, multiprocessor) is None:
                yield estimate, other


def _in_rows(workload: GemmConvolution, multiprocessor: Multiprocessor) -> Iterator[tuple[float, GemmKnobs]]:
    """Those whose blocks go along rows: what the others differ in is not estimated."""
    for instruction in instructions_of(workload.dtype, multiprocessor):
        for knobs in _tiled(instruction, workload, multiprocessor):
            if misfit(workload, knobs, multiprocessor) is None:
                yield estimated_us(workload, knobs, multiprocessor), knobs


def _tiled(
    instruction: Instruction, workload: GemmConvolution, multiprocessor: Multiprocessor
) -> Iterator[GemmKnobs]:
    stages = (2, 3, 4) if multiprocessor.has_async_copies else (2,)
    depths = [row // workload.element_bytes for row in _ROW_BYTES[instruction]]
    for block_m, block_n, block_k in product(_BLOCKS, _BLOCKS, depths):
        if not 32 * 32 <= block_m * block_n <= 128 * 256:
            continue
        warps = ((block_m // SIDE, 1),) if instruction == "wgmma" else _WARPS
        tiles = ceil(workload.depth / block_k)
        slices = [count for count in _SLICES if count == 1 or (count <= tiles and workload.groups == 1)]
        for (warps_m, warps_n), count, split_k in product(warps, stages, slices):
            knobs = GemmKnobs(instruction, block_m, block_n, block_k, warps_m, warps_n, count, split_k)
            yield knobs
            if instruction == "wgmma":
                yield replace(knobs, copies="bulk")


@lru_cache(maxsize=4096)
def cheapest_gemm(workload: GemmConvolution, multiprocessor: Multiprocessor) -> tuple[float, GemmKnobs]:
    """The knobs with the least estimated microseconds; of several, those that can lose least by what the
    model leaves out.
    """
    return min(_in_rows(workload, multiprocessor), key=lambda found: (found[0], *_risk(workload, found[1])))


def _risk(workload: GemmConvolution, knobs: GemmKnobs) -> tuple[bool, int, int]:
    """Less is better, among knobs of one estimate.

    Where large tiles wait for the second-level cache, wgmma leaves the cores that issue copies idle, and they
    are late less often. Stages that take no place from other blocks bridge the latency of a busy memory.
    """
    large = knobs.block_m * knobs.block_n >= _LARGE
    tiles = padded(workload, knobs)[2] // knobs.split_k // knobs.block_k
    return not (large and knobs.instruction == "wgmma"), -min(knobs.stages, tiles), knobs.stages


def resident_blocks(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> int:
    """Thread blocks that one multiprocessor holds at once."""
    shared = shared_bytes(workload, knobs, multiprocessor)
    return multiprocessor.resident(shared, registers(workload, knobs, multiprocessor), knobs.warps)


def estimated_us(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> float:
    """Microseconds of the kernel, and of the one that adds the slices.

    The constants are fitted to 2068 kernels of float16 that an H100 ran, of layers of ResNet-50, MobileNetV2
    and EfficientNet-B0 with one image and with 32. Without an epilogue, which those kernels lack and whose
    cost is reckoned, estimates of two thirds of them are within 15%.
    """
    rows, columns, depth = padded(workload, knobs)
    size = workload.element_bytes
    blocks = rows // knobs.block_m * (columns // knobs.block_n) * workload.groups * knobs.split_k
    tiles = depth // knobs.split_k // knobs.block_k
    resident = min(resident_blocks(workload, knobs, multiprocessor), ceil(blocks / multiprocessor.count))
    work = _tile_cycles(workload, knobs, multiprocessor, resident) * resident
    waited = LATENCY_CYCLES / max(knobs.stages - 1, 1)
    turn = hypot(work, waited) + BARRIER_CYCLES
    result_bytes = 4 if knobs.split_k > 1 else size
    warps = resident * knobs.warps
    each = (RESULT_CYCLES + RESULT_BYTE_CYCLES * result_bytes) / min(1.0, warps / RESULT_WARPS)
    if knobs.split_k == 1:
        each += EPILOGUE_CYCLES / min(1.0, warps / EPILOGUE_WARPS)
    finish = knobs.block_m * knobs.block_n * each * resident
    waves = ceil(blocks / (multiprocessor.count * resident))
    cycles = waves * (tiles * turn + LATENCY_CYCLES + finish)
    moved = (workload.batch * workload.in_height * workload.in_width * workload.in_channels) * size
    moved += workload.out_channels * workload.depth * size + workload.rows * workload.out_channels * size
    bandwidth = multiprocessor.gigabytes_per_second * 1e3
    microseconds = hypot(cycles / (multiprocessor.gigahertz * 1e3), moved / bandwidth)
    microseconds += multiprocessor.launch_us
    if knobs.split_k > 1:
        partial = rows * columns * 4 * knobs.split_k
        # Written and read, mostly within the second-level cache.
        microseconds += max(_SUM_US, multiprocessor.launch_us) + 2 * partial / (2 * bandwidth)
    return microseconds


def _tile_cycles(
    workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor, resident: int
) -> float:
    """Of the busiest unit, for the tiles of one turn of a block, of which ``resident`` take turns."""
    size = workload.element_bytes
    # Fewer warps leave some of the schedulers idle.
    busy = min(1.0, resident * knobs.warps / SCHEDULERS)
    rate = multiprocessor.products(workload.dtype, knobs.instruction) * busy
    multiply = knobs.block_m * knobs.block_n * knobs.block_k / rate
    readers, read_rows = knobs.warps, knobs.warp_m
    if knobs.instruction == "wgmma":
        # Four warps read what they multiply once.
        readers, read_rows = knobs.warps // GROUP, GROUP_ROWS
    fragments = readers * (read_rows + knobs.warp_n) * knobs.block_k * size
    row_bytes = knobs.block_k * size
    arriving = (knobs.block_m + knobs.block_n) * row_bytes
    shared = (fragments + arriving) / SHARED_BYTES_PER_CYCLE
    level2 = arriving / multiprocessor.l2_bytes_per_cycle
    if knobs.copies == "bulk":
        return max(multiply, shared, level2)
    # A copy of fewer than 16 bytes costs as many instructions for less.
    copies = knobs.block_m * knobs.block_k / workload.copy_elements * 8 / 128
    lines = (knobs.block_m + knobs.block_n) * max(1.0, row_bytes / LINE_BYTES) * LINE_CYCLES
    return max(multiply, shared, level2, copies, lines)


__all__ = [
    "cheapest_gemm",
    "estimated_us",
    "gemm_knobs",
    "instructions_of",
    "resident_blocks",
]
