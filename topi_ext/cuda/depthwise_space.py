"""Knobs of depthwise convolutions worth trying, each with its estimate.

A thread reads all that it needs at once and multiplies it, so that a block takes the latency of memory and
then the time of its busiest unit; other blocks of the multiprocessor work while it waits.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod
from typing import get_args

import numpy as np

from topi_ext.cuda.depthwise_knobs import (
    VECTORS,
    DepthwiseKnobs,
    Weights,
    depthwise_misfit,
    depthwise_registers,
    read_pixels,
    weight_bytes,
)
from topi_ext.cuda.gemm_space import BARRIER_CYCLES, LINE_BYTES, SHARED_BYTES_PER_CYCLE
from topi_ext.cuda.multiprocessor import LANES, SCHEDULERS, Multiprocessor
from topi_ext.cuda.stacked import Amount, Count, first_fitting, greatest, least, stacked
from topi_ext.cuda.workload import DepthwiseConvolution
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.workloads.convolution import BYTES

WINDOW_CYCLES = 900
"""From asking for a window of global memory, pixel by pixel, to having it."""

ISSUE_CYCLES = 3
"""Between two instructions of one warp, on average: some need what the one before gives."""

IN_TURN = 0.6
"""The share of what could be done at the same time that is not."""

BLOCK_CYCLES = 30
"""From the start of one block on a multiprocessor to that of the next."""

_TILE_ROWS = (1, 2, 4)
_TILE_COLUMNS = (1, 2, 4, 7)
_ROW_THREADS = (1, 2, 4, 8)
_COLUMN_THREADS = (1, 2, 4, 7, 8, 16)
_CHANNEL_THREADS = (2, 4, 8, 16, 32, 64)
MOST_TAPS = 32
"""The most taps of a window whose weights may be in registers."""

_THREADS = (32, 256)
"""Fewest and most threads of a block, where there is work for so many."""


def depthwise_knobs(
    workload: DepthwiseConvolution, multiprocessor: Multiprocessor
) -> Iterator[tuple[float, DepthwiseKnobs]]:
    """All knobs that fit, with their estimated microseconds."""
    choices = list(_choices(workload))
    estimates = _estimates(workload, stacked(choices), multiprocessor).tolist()
    for estimate, knobs in zip(estimates, choices, strict=True):
        if depthwise_misfit(workload, knobs, multiprocessor) is None:
            yield estimate, knobs


def _choices(workload: DepthwiseConvolution) -> Iterator[DepthwiseKnobs]:
    """All that have work for a block, whether they fit or not."""
    for vector in VECTORS:
        tiles, blocks = product(_TILE_ROWS, _TILE_COLUMNS), product(_ROW_THREADS, _COLUMN_THREADS)
        for across, tile, threads in product(_channel_threads(workload, vector), tiles, blocks):
            if _is_worth(workload, tile, threads, across):
                for weights in _places(workload, threads):
                    yield DepthwiseKnobs(vector, *tile, across, *threads, weights)


def _places(workload: DepthwiseConvolution, threads: tuple[int, int]) -> tuple[Weights, ...]:
    """Where weights may be: shared memory serves threads of several pixels, and takes many weights, of which
    ptxas spills some.
    """
    if threads == (1, 1):
        return ("registers",)
    return ("shared",) if workload.taps > MOST_TAPS else get_args(Weights)


def _channel_threads(workload: DepthwiseConvolution, vector: int) -> list[int]:
    """How many vectors of channels a block may have: up to each of :data:`_CHANNEL_THREADS` the most that
    divide.
    """
    if workload.out_channels % vector:
        return []
    vectors = workload.out_channels // vector
    divisors = [size for size in range(1, min(vectors, _THREADS[1]) + 1) if vectors % size == 0]
    return sorted({max(size for size in divisors if size <= most) for most in _CHANNEL_THREADS})


def _is_worth(
    workload: DepthwiseConvolution, tile: tuple[int, int], threads: tuple[int, int], across: int
) -> bool:
    """Is there work for all of a block, and enough of it?"""
    extents = (workload.out_height, workload.out_width)
    count = threads[0] * threads[1] * across
    if count > _THREADS[1]:
        return False
    if any(
        (number - 1) * size >= extent for number, size, extent in zip(threads, tile, extents, strict=True)
    ):
        return False
    if any(size > extent for size, extent in zip(tile, extents, strict=True)):
        return False
    whole = all(number * size >= extent for number, size, extent in zip(threads, tile, extents, strict=True))
    return count >= _THREADS[0] or whole


def depthwise_blocks(workload: DepthwiseConvolution, knobs: DepthwiseKnobs) -> Count:
    """Thread blocks of the grid."""
    down, right = (
        -(-extent // size)
        for extent, size in zip((workload.out_height, workload.out_width), knobs.block, strict=True)
    )
    return workload.batch * down * right * (workload.out_channels // knobs.channels)


def depthwise_resident(
    workload: DepthwiseConvolution, knobs: DepthwiseKnobs, multiprocessor: Multiprocessor
) -> Count:
    """Thread blocks that one multiprocessor holds at once."""
    shared = (knobs.weights == "shared") * weight_bytes(workload, knobs)
    return multiprocessor.resident(shared, depthwise_registers(workload, knobs, multiprocessor), knobs.warps)


def warp_lines(workload: DepthwiseConvolution, knobs: DepthwiseKnobs, size: int, stride: int) -> Amount:
    """Lines of the first-level cache that a warp touches where each thread reads a vector of elements of
    ``size`` bytes, neighbouring pixels of a tile ``stride`` apart.
    """
    run = least(knobs.channel_threads, LANES) * knobs.vector * size
    pixels = greatest(1, LANES // knobs.channel_threads)
    apart = stride * knobs.tile_columns * workload.out_channels * size
    return greatest(1.0, run / LINE_BYTES) * greatest(1.0, pixels * least(1.0, apart / LINE_BYTES))


def depthwise_us(
    workload: DepthwiseConvolution, knobs: DepthwiseKnobs, multiprocessor: Multiprocessor
) -> float:
    """Estimated microseconds of the kernel.

    Latency and what is not done at the same time are fitted to 352 kernels of float16 that an H100 ran.
    """
    return float(_estimates(workload, knobs, multiprocessor))


def _estimates(
    workload: DepthwiseConvolution, knobs: DepthwiseKnobs, multiprocessor: Multiprocessor
) -> Amount:
    """:func:`depthwise_us`, of stacked knobs all of them."""
    size, weight_size = workload.element_bytes, DTYPE_BYTES[workload.weight_dtype]
    results = knobs.tile_rows * knobs.tile_columns
    read = read_pixels(workload, knobs.tile_rows, knobs.tile_columns)
    # Threads of other pixels read the same weights.
    run = least(knobs.channel_threads, LANES) * knobs.vector * weight_size
    lines = read * warp_lines(workload, knobs, size, workload.strides[1])
    lines = lines + workload.taps * greatest(1.0, run / LINE_BYTES)
    lines = lines + results * warp_lines(workload, knobs, size, 1)
    converted = 0 if workload.dtype == "float32" else read + workload.taps
    arithmetic = knobs.vector * (results * workload.taps + converted)
    # Addresses and the borders of the image take their share.
    issued = arithmetic + 4 * (read + results) + 2 * workload.taps + 60
    blocks = depthwise_blocks(workload, knobs)
    each = -(-blocks // multiprocessor.count)
    resident = least(depthwise_resident(workload, knobs, multiprocessor), each)
    # Fewer warps leave some of the schedulers idle.
    busy = least(1.0, resident * knobs.warps / SCHEDULERS)
    rate = multiprocessor.float_macs / (2 if workload.dtype in BYTES else 1)
    warp = greatest(lines, arithmetic * LANES / rate / busy, issued / SCHEDULERS / busy)
    # Blocks read what surrounds their pixels once more than their neighbours.
    window = read_pixels(workload, *knobs.block) * knobs.channels * size / workload.columns
    arriving = (window + weight_bytes(workload, knobs)) / multiprocessor.l2_bytes_per_cycle
    own = greatest(warp * knobs.warps, arriving, issued * ISSUE_CYCLES)
    copied = BARRIER_CYCLES + 2 * weight_bytes(workload, knobs) / SHARED_BYTES_PER_CYCLE
    waited = WINDOW_CYCLES + (knobs.weights == "shared") * copied
    turn = greatest(warp * knobs.warps * resident, arriving * resident, waited + own)
    cycles = WINDOW_CYCLES + greatest(-(-each // resident) * turn, each * BLOCK_CYCLES + waited + own)
    moved = prod(workload.data_shape) * size
    moved += (workload.rows * size + workload.taps * weight_size) * workload.out_channels
    bandwidth = multiprocessor.gigabytes_per_second * 1e3
    both = cycles / (multiprocessor.gigahertz * 1e3), moved / bandwidth
    return greatest(*both) + least(*both) * IN_TURN + multiprocessor.launch_us


@lru_cache(maxsize=4096)
def cheapest_depthwise(
    workload: DepthwiseConvolution, multiprocessor: Multiprocessor
) -> tuple[float, DepthwiseKnobs]:
    """The knobs with the least estimated microseconds."""
    choices = list(_choices(workload))
    estimates = _estimates(workload, stacked(choices), multiprocessor)
    place = first_fitting(
        choices,
        estimates[np.newaxis],
        lambda choice: depthwise_misfit(workload, choice, multiprocessor) is None,
    )
    assert place is not None, f"no knobs fit {workload.to_json()}"
    return float(estimates[place]), choices[place]
