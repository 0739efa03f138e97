"""Knobs of depthwise convolutions on a GPU, what keeps them from a workload, and what they need."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, get_args

import numpy as np

from topi_ext.cuda.kernel_knobs import KernelKnobs, refuse
from topi_ext.cuda.multiprocessor import LANES, MOST_BLOCKS, Multiprocessor
from topi_ext.cuda.stacked import Count, rounded_up
from topi_ext.cuda.workload import COPY_BYTES, DepthwiseConvolution
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.workloads.convolution import BYTES

Weights = Literal["registers", "shared"]
"""Where the weights of a block of threads are on their way to the products: each thread reads its own from
global memory, or the block copies all of them to shared memory first."""

VECTORS = (8, 4, 2, 1)
MOST_PRODUCTS = 2048
"""The most products of a thread: the window is unrolled."""

MOST_REGISTERS = 220
"""The most estimated registers of a thread, which may have 255: estimates err, and what spills is slow."""

MOST_THREADS = 1024
STATIC_SHARED_BYTES = 48 << 10


@dataclass(frozen=True)
class DepthwiseKnobs(KernelKnobs):
    """Named knobs of a depthwise convolution.

    A thread computes ``tile_rows`` x ``tile_columns`` neighbouring pixels of ``vector`` channels, with all
    that they read in registers. A block has ``row_threads`` x ``column_threads`` of such tiles for each of
    ``channel_threads`` vectors of channels, which lie on neighbouring threads.
    """

    ALGORITHM: ClassVar[str] = "depthwise"
    KERNEL: ClassVar[str] = "a depthwise convolution"

    vector: int
    tile_rows: int
    tile_columns: int
    channel_threads: int
    row_threads: int
    column_threads: int
    weights: Weights = "registers"

    @property
    def pixel_threads(self) -> int:
        return self.row_threads * self.column_threads

    @property
    def threads(self) -> int:
        return self.pixel_threads * self.channel_threads

    @property
    def warps(self) -> int:
        return -(-self.threads // LANES)

    @property
    def channels(self) -> int:
        """Output channels of a block."""
        return self.vector * self.channel_threads

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of the pixels of a block."""
        return self.row_threads * self.tile_rows, self.column_threads * self.tile_columns


def read_pixels(workload: DepthwiseConvolution, rows: Count, columns: Count) -> Count:
    """Pixels of the image that ``rows`` x ``columns`` neighbouring results read."""
    count = 1
    for axis, extent in enumerate((rows, columns)):
        most = int(np.max(extent))
        read = _read_of_each(workload.kernel[axis], workload.strides[axis], workload.dilation[axis], most)
        count = count * read[extent]
    return count


@lru_cache
def _read_of_each(taps: int, stride: int, dilation: int, most: int) -> np.ndarray:
    """Along one axis, what 0, 1, 2 ... up to ``most`` neighbouring results read."""
    seen: set[int] = set()
    counts = [0]
    for place in range(most):
        seen.update(range(place * stride, place * stride + taps * dilation, dilation))
        counts.append(len(seen))
    return np.array(counts)


def depthwise_registers(
    workload: DepthwiseConvolution, knobs: DepthwiseKnobs, multiprocessor: Multiprocessor
) -> Count:
    """Registers of a thread, by estimate: sums, most of what they read, and for bytes, which are made
    integers one by one, the weights.

    Fitted to what ptxas gives samples of the layers of networks, a little above its median: how much it reads
    at once is its own choice, and half of the kernels are further than 15% away.
    """
    sums = knobs.tile_rows * knobs.tile_columns * knobs.vector
    words = _words(workload, knobs)
    read = read_pixels(workload, knobs.tile_rows, knobs.tile_columns) * words
    if workload.dtype in BYTES:
        return rounded_up(2.4 * sums + 0.7 * read + 1.9 * workload.taps * words + 5)
    # Before sm_80 ptxas asks for more of them ahead.
    ahead = 8 if multiprocessor.capability < 80 else 0
    if workload.dtype == "float16":
        return rounded_up(sums + 0.8 * read + 22 + ahead)
    return rounded_up(0.3 * sums + 0.9 * read + 24 + ahead)


def _words(workload: DepthwiseConvolution, knobs: DepthwiseKnobs) -> int:
    """Registers of a vector of data."""
    return -(-knobs.vector * workload.element_bytes // 4)


def weight_bytes(workload: DepthwiseConvolution, knobs: DepthwiseKnobs) -> int:
    """Bytes of a block's weights."""
    return workload.taps * knobs.channels * DTYPE_BYTES[workload.weight_dtype]


def depthwise_misfit(
    workload: DepthwiseConvolution, knobs: DepthwiseKnobs, multiprocessor: Multiprocessor
) -> str | None:
    """What keeps knobs from a workload and a multiprocessor, if anything."""
    if knobs.weights not in get_args(Weights):
        return f"weights in '{knobs.weights}'; use one of {', '.join(get_args(Weights))}"
    numbers = [value for value in vars(knobs).values() if isinstance(value, int)]
    if min(numbers) < 1:
        return "a tile is empty"
    # TVM's CUDA has no constants of eight bytes.
    most = 4 if workload.dtype in BYTES else COPY_BYTES // workload.element_bytes
    if knobs.vector not in VECTORS or knobs.vector > most:
        return f"vectors of {knobs.vector} {workload.data_dtype}"
    multiplier = workload.columns
    products = knobs.tile_rows * knobs.tile_columns * knobs.vector * workload.taps
    registers = depthwise_registers(workload, knobs, multiprocessor)
    down = -(-workload.out_height // knobs.block[0])
    problems = [
        (
            workload.out_channels % knobs.channels,
            f"{knobs.channels} of {workload.out_channels} channels in a block",
        ),
        (
            multiplier > 1 and knobs.vector % multiplier and multiplier % knobs.vector,
            f"vectors of {knobs.vector} where a channel makes {multiplier}",
        ),
        (products > MOST_PRODUCTS, f"{products} products of a thread"),
        (knobs.threads > MOST_THREADS, f"{knobs.threads} threads in a block"),
        (registers > MOST_REGISTERS, f"about {registers} registers a thread"),
        (
            registers * knobs.threads > multiprocessor.registers,
            f"{knobs.threads} threads of {registers} registers",
        ),
        (
            knobs.weights == "shared" and weight_bytes(workload, knobs) > STATIC_SHARED_BYTES,
            f"{weight_bytes(workload, knobs)} bytes of weights in shared memory",
        ),
        (
            max(down, workload.batch) > MOST_BLOCKS,
            f"{max(down, workload.batch)} blocks along an axis of the grid",
        ),
    ]
    return next((text for found, text in problems if found), None)


def check_depthwise(
    workload: DepthwiseConvolution, knobs: DepthwiseKnobs, multiprocessor: Multiprocessor
) -> None:
    """Raise CudaError where :func:`depthwise_misfit` finds something."""
    refuse(workload, knobs, depthwise_misfit(workload, knobs, multiprocessor))
