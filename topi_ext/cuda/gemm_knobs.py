"""The choices that a matrix product on a GPU leaves open."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from topi_ext.cuda.codegen.bulk_copies import BARRIER_BYTES, MOST_STAGES
from topi_ext.cuda.codegen.swizzle import SWIZZLED_ROWS
from topi_ext.cuda.codegen.tensor_maps import bulk_misfit
from topi_ext.cuda.codegen.wgmma import GROUP, LOADED, LOADED_REGISTERS, MOST_COLUMNS, WGMMA_DTYPES
from topi_ext.cuda.kernel_knobs import KernelKnobs, refuse
from topi_ext.cuda.multiplication import MULTIPLICATIONS, SIDE
from topi_ext.cuda.multiprocessor import LANES, MOST_BLOCKS, Multiprocessor
from topi_ext.cuda.stacked import Count, greatest, least, rounded_up
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.workloads.convolution import BYTES

Instruction = Literal["mma", "wgmma", "wmma", "fma", "dp4a"]
"""``mma``: mma.sync on fragments that ldmatrix loads. ``wgmma``: wgmma.mma_async of sm_90, by which four
warps multiply tiles as they lie in shared memory; each has 16 rows and the whole width. ``wmma``: the
16x16x16 fragments of float16 that every architecture with tensor cores has. ``fma``: float32 on CUDA
cores. ``dp4a``: four bytes at a time there."""

SWIZZLED: tuple[Instruction, ...] = ("mma", "wgmma")
"""What reads tiles whose rows are swizzled, not padded, in steps of 32 bytes."""

ON_CUDA_CORES: tuple[Instruction, ...] = ("fma", "dp4a")

Order = Literal["rows", "columns"]
"""Which blocks start one after the other: those of different rows, which share a tile of the weights, or
those of different columns, which share a tile of the data."""

Copies = Literal["async", "bulk"]
"""How tiles come to shared memory. ``async``: copies that every thread issues for itself. ``bulk``: whole
tiles by the tensor memory accelerator of sm_90, which one thread issues, for wgmma."""

LANE_ROWS, LANE_COLUMNS = 4, 8
"""How the lanes of a warp divide its results on CUDA cores: neighbours lie in different banks."""

PAD_BYTES, ROW_BYTES = 16, 64
"""Rows in shared memory that are not swizzled take a multiple of the second and the first, so that eight of
them lie in different banks."""

SUM_BYTES = 4
"""Bytes of a result while products are added to it."""

RESULT_PAD = 8
"""Elements of 4 bytes by which rows of a fragment's results are longer than lines of 32 banks: pairs that
half a warp writes, two rows of four lanes, then lie in different banks."""


@dataclass(frozen=True)
class GemmKnobs(KernelKnobs):
    """Named knobs of an implicit GEMM.

    ``block_m`` x ``block_n``: pixels and output channels of a thread block, ``block_k``: depth of one tile
    in shared memory. ``warps_m`` x ``warps_n``: how warps divide the block's tile. ``stages``: tiles in
    shared memory, one being multiplied while the others arrive. ``split_k``: slices of the depth that blocks
    of their own sum, whose partial sums a second kernel adds. ``order``: which blocks start first.
    ``copies``: how tiles arrive.
    """

    ALGORITHM: ClassVar[str] = "implicit_gemm"
    KERNEL: ClassVar[str] = "an implicit GEMM"

    instruction: Instruction
    block_m: int
    block_n: int
    block_k: int
    warps_m: int
    warps_n: int
    stages: int
    split_k: int = 1
    order: Order = "rows"
    copies: Copies = "async"

    @property
    def warps(self) -> int:
        return self.warps_m * self.warps_n

    @property
    def threads(self) -> int:
        return self.warps * LANES

    @property
    def warp_m(self) -> int:
        return self.block_m // self.warps_m

    @property
    def warp_n(self) -> int:
        return self.block_n // self.warps_n


def shared_bytes(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> Count:
    """Shared memory of a thread block: its tiles, whose place its results take in the end.

    Tiles that are copied through registers wait there for the one before. TVM lays results over both operands
    where their elements have another size, and over the larger one else.
    """
    row = knobs.block_k * workload.element_bytes
    if knobs.instruction not in SWIZZLED:
        row += (PAD_BYTES - row) % ROW_BYTES
    stages = knobs.stages if multiprocessor.has_async_copies else 1
    smaller = stages * row * least(knobs.block_m, knobs.block_n)
    larger = stages * row * greatest(knobs.block_m, knobs.block_n)
    pad = PAD_BYTES // SUM_BYTES if knobs.instruction in ON_CUDA_CORES else RESULT_PAD
    results = knobs.block_m * (knobs.block_n + (pad - knobs.block_n) % 32) * SUM_BYTES
    if workload.element_bytes == SUM_BYTES:
        total = smaller + greatest(larger, results)
    else:
        total = greatest(smaller + larger, results)
    return total + (knobs.copies == "bulk") * BARRIER_BYTES


@dataclass(frozen=True)
class _Registers:
    """What a thread has for each of its sums, beside all of them, beside that with a window, and for each
    word of a tile that it copies.
    """

    per_sum: float
    beside: int
    window: int = 0
    per_word: float = 0.0


_ASYNCHRONOUS: dict[Instruction, _Registers] = {
    "mma": _Registers(1.2, 14, window=6, per_word=0.37),
    "wgmma": _Registers(1.08, 29, window=8),
    "fma": _Registers(1.3, 54, window=8),
}
"""Where tiles are copied asynchronously; fitted to what ptxas gives samples of the layers of networks."""

_THROUGH_REGISTERS: dict[Instruction, _Registers] = {
    "mma": _Registers(1.1, 30, window=2, per_word=0.7),
    "wmma": _Registers(1.0, 40, per_word=0.8),
    "fma": _Registers(1.0, 56, per_word=1.0),
    "dp4a": _Registers(1.1, 54, per_word=1.0),
}
"""The same where they are not."""

_MOST_PLACES = 8
"""Copies of a thread whose places are computed ahead."""

MOST_REGISTERS = 255
"""The most registers of a thread."""

_NEXT_STEP = 12
"""Registers for fragments of mma that are loaded for the next step within a tile."""


def registers(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> Count:
    """Registers of a thread, by estimate, within 15% of what ptxas gives half of the kernels or more."""
    first, second = _THROUGH_REGISTERS, _ASYNCHRONOUS
    if multiprocessor.has_async_copies:
        first, second = second, first
    found = (second | first)[knobs.instruction]
    words = (knobs.block_m + knobs.block_n) * knobs.block_k * workload.element_bytes / 4 / knobs.threads
    used = found.beside + found.per_sum * knobs.warp_m * knobs.warp_n / LANES + found.per_word * words
    if workload.has_window:
        used += found.window
    if workload.has_window and workload.dtype in BYTES and multiprocessor.has_async_copies:
        # Bytes may have a border of their own, which is stored where nothing is copied.
        copies = knobs.block_m * knobs.block_k / workload.copy_elements / knobs.threads
        used = used + 2 * least(copies, _MOST_PLACES)
    steps = knobs.block_k // fragment_depth(workload, knobs)
    if knobs.instruction == "mma":
        used = used + (steps > 1) * _NEXT_STEP
    if knobs.instruction == "wgmma" and workload.dtype in LOADED:
        used = used + LOADED_REGISTERS * steps
    return rounded_up(used)


def fragment_depth(workload: GemmConvolution, knobs: GemmKnobs) -> int:
    """Elements of the depth that a step of a warp multiplies."""
    return MULTIPLICATIONS[workload.dtype].depth if knobs.instruction in SWIZZLED else SIDE


_INSTRUCTIONS, _ORDERS, _COPIES = get_args(Instruction), get_args(Order), get_args(Copies)

_MULTIPLIED: dict[Instruction, tuple[str, ...]] = {
    "mma": tuple(MULTIPLICATIONS),
    "wgmma": WGMMA_DTYPES,
    "wmma": ("float16",),
    "fma": ("float32",),
    "dp4a": BYTES,
}


def misfit(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> str | None:
    """What keeps knobs from a workload and a multiprocessor, if anything."""
    return next(_misfits(workload, knobs, multiprocessor), None)


def _misfits(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> Iterator[str]:
    """One after the other, since spaces ask of hundreds of thousands of knobs whether there is any."""
    if knobs.instruction not in _INSTRUCTIONS:
        yield f"unknown instruction '{knobs.instruction}'"
    if knobs.order not in _ORDERS:
        yield f"unknown order '{knobs.order}'"
    if knobs.copies not in _COPIES:
        yield f"unknown copies '{knobs.copies}'"
    yield from _tile_misfits(workload, knobs)
    yield from _memory_misfits(workload, knobs, multiprocessor)
    yield from _architecture_misfits(workload, knobs, multiprocessor)
    yield from _grid_misfits(workload, knobs)
    if knobs.copies == "bulk":
        problem = _bulk_misfit(workload, knobs, multiprocessor)
        if problem is not None:
            yield problem


def _tile_misfits(workload: GemmConvolution, knobs: GemmKnobs) -> Iterator[str]:
    """What keeps an instruction from the tiles of blocks and of warps."""
    sides = (knobs.block_m, knobs.block_n, knobs.block_k, knobs.warps_m, knobs.warps_n)
    if min(*sides, knobs.stages, knobs.split_k) < 1:
        yield "a tile is empty"
    if workload.dtype not in _MULTIPLIED[knobs.instruction]:
        yield f"{knobs.instruction} for {workload.dtype}"
    if knobs.instruction in ON_CUDA_CORES and (knobs.warp_m % 4 or knobs.warp_n % 8):
        yield "threads of a warp divide its results by 4 and 8"
    piece = 4 if knobs.instruction in ON_CUDA_CORES else SIDE
    if knobs.warp_m % piece or knobs.block_m % knobs.warps_m:
        yield f"{knobs.warps_m} warps of {knobs.block_m} rows"
    if knobs.warp_n % piece or knobs.block_n % knobs.warps_n:
        yield f"{knobs.warps_n} warps of {knobs.block_n} columns"
    depth = fragment_depth(workload, knobs)
    if knobs.block_k % depth:
        yield f"a depth of {knobs.block_k} is no multiple of {depth}"
    row_bytes = knobs.block_k * workload.element_bytes
    if knobs.instruction in SWIZZLED and row_bytes not in SWIZZLED_ROWS:
        yield f"rows of {row_bytes} bytes; use one of {SWIZZLED_ROWS}"


def _memory_misfits(
    workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor
) -> Iterator[str]:
    """What of a block a multiprocessor cannot hold."""
    if knobs.threads > 1024:
        yield f"{knobs.threads} threads in a block"
    needed, limit = shared_bytes(workload, knobs, multiprocessor), multiprocessor.block_shared_bytes
    if needed > limit:
        yield f"{needed} bytes of shared memory of {limit}"
    used = registers(workload, knobs, multiprocessor)
    if used > MOST_REGISTERS:
        yield f"about {used} registers a thread"
    if used * knobs.threads > multiprocessor.registers:
        yield f"{knobs.threads} threads of {used} registers"


def _architecture_misfits(
    workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor
) -> Iterator[str]:
    """What an architecture has no instructions for."""
    if knobs.instruction == "mma" and not MULTIPLICATIONS[workload.dtype].shape_on(multiprocessor.capability):
        yield f"{multiprocessor.arch} has no mma of {workload.dtype}"
    if knobs.instruction == "wgmma" and not multiprocessor.wgmma_gain:
        yield f"{multiprocessor.arch} has no wgmma"
    if knobs.instruction == "wgmma" and not _is_of_groups(knobs):
        yield (
            f"wgmma divides {knobs.block_m} rows of {knobs.block_n} columns by {knobs.warps_m} x "
            f"{knobs.warps_n} warps; each has {SIDE} rows of up to {MOST_COLUMNS}, four at once"
        )
    if knobs.stages > 2 and not multiprocessor.has_async_copies:
        yield f"{multiprocessor.arch} has no asynchronous copies"


def _grid_misfits(workload: GemmConvolution, knobs: GemmKnobs) -> Iterator[str]:
    """What keeps blocks from being one grid."""
    across, down = -(-workload.columns // knobs.block_n), -(-workload.rows // knobs.block_m)
    second = across if knobs.order == "rows" else down
    if second > MOST_BLOCKS:
        yield f"{second} blocks along the second axis of the grid"
    tiles = -(-workload.depth // knobs.block_k)
    if knobs.split_k > tiles:
        yield f"{knobs.split_k} slices of {tiles} tiles"
    if knobs.split_k > 1 and workload.groups > 1:
        yield "slices of the depth in a grouped convolution"


def _bulk_misfit(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> str | None:
    """What keeps bulk copies from knobs that fit otherwise, if anything."""
    if not multiprocessor.has_bulk_copies:
        return f"{multiprocessor.arch} has no bulk copies of tiles"
    if knobs.instruction != "wgmma":
        return f"bulk copies for {knobs.instruction}"
    tiles = padded_depth(workload, knobs) // knobs.split_k // knobs.block_k
    if not 2 <= knobs.stages <= min(tiles, MOST_STAGES):
        return f"bulk copies of {tiles} tiles in {knobs.stages} stages"
    return bulk_misfit(workload, knobs.block_m, knobs.block_n, knobs.block_k)


def padded_depth(workload: GemmConvolution, knobs: GemmKnobs) -> int:
    """The depth in whole tiles, as many for each slice."""
    step = knobs.block_k * knobs.split_k
    return -(-workload.depth // step) * step


def _is_of_groups(knobs: GemmKnobs) -> bool:
    """Are warps divided as wgmma has them?"""
    whole = knobs.warps_n == 1 and knobs.warps_m % GROUP == 0
    return whole and knobs.warp_m == SIDE and knobs.block_n <= MOST_COLUMNS


def check(workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor) -> None:
    """Raise CudaError where :func:`misfit` finds something."""
    refuse(workload, knobs, misfit(workload, knobs, multiprocessor))
