"""Knobs of Winograd's convolution on a GPU worth trying, each with its estimate.

The product is estimated as any other. Both transforms are bound by what they move: every place of every tile
passes the second-level cache on its way out and in again, and what one kernel hands to the next is counted as
memory's, although some of it stays in the cache where images are small. Each kernel takes time beside that.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil

from topi_ext.cuda.gemm_space import LATENCY_CYCLES, cheapest_gemm, gemm_knobs, gemm_us
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.winograd_knobs import (
    MOST_ELEMENTS,
    TransformThreads,
    WinogradGemmKnobs,
    data_threads,
    elements_between,
    grid_of,
    product_of,
    result_threads,
    suits_winograd,
    tiles_of,
)
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.winograd import POINTS, Matrix, winograd_matrices

FLOAT_BYTES = 4


def winograd_knobs(
    workload: GemmConvolution, multiprocessor: Multiprocessor
) -> Iterator[tuple[float, WinogradGemmKnobs]]:
    """All knobs that fit, with their estimated microseconds; none where there is no Winograd form."""
    for tile in POINTS if suits_winograd(workload) else ():
        transforms = transforms_us(workload, tile, multiprocessor)
        for product, knobs in gemm_knobs(product_of(workload, tile), multiprocessor):
            found = WinogradGemmKnobs(tile, knobs)
            if elements_between(workload, found) <= MOST_ELEMENTS:
                yield transforms + product, found


@lru_cache(maxsize=4096)
def cheapest_winograd(
    workload: GemmConvolution, multiprocessor: Multiprocessor
) -> tuple[float, WinogradGemmKnobs] | None:
    """The knobs with the least estimated microseconds, if any fit."""
    found = []
    for tile in POINTS if suits_winograd(workload) else ():
        product, knobs = cheapest_gemm(product_of(workload, tile), multiprocessor)
        found.append(
            (transforms_us(workload, tile, multiprocessor) + product, WinogradGemmKnobs(tile, knobs))
        )
    fitting = [each for each in found if elements_between(workload, each[1]) <= MOST_ELEMENTS]
    return min(fitting, key=lambda each: each[0], default=None)


def winograd_us(workload: GemmConvolution, knobs: WinogradGemmKnobs, multiprocessor: Multiprocessor) -> float:
    """Estimated microseconds of the three kernels."""
    product = gemm_us(product_of(workload, knobs.tile), knobs.product, multiprocessor)
    return transforms_us(workload, knobs.tile, multiprocessor) + product


def transforms_us(workload: GemmConvolution, tile: int, multiprocessor: Multiprocessor) -> float:
    """Estimated microseconds of the kernels before and after the product."""
    matrices = winograd_matrices(tile)
    extent, places = matrices.extent, matrices.extent**2
    tiles, (rows, columns) = tiles_of(workload, tile), grid_of(workload, tile)
    threads = data_threads(workload, tile)
    before = _transform_us(
        multiprocessor,
        threads,
        blocks=ceil(tiles / threads.tiles) * (workload.in_channels // threads.channels),
        moved=2 * places,
        operations=2 * extent * _terms(matrices.data),
        elements=(workload.batch * workload.in_height * workload.in_width + places * tiles)
        * workload.in_channels,
    )
    threads = result_threads(workload, tile)
    beside = workload.batch * rows * ceil(columns / threads.tiles)
    after = _transform_us(
        multiprocessor,
        threads,
        blocks=beside * (workload.out_channels // threads.channels),
        moved=places + tile**2,
        operations=(extent + tile) * _terms(matrices.result),
        elements=(places * tiles + workload.rows) * workload.out_channels,
    )
    return before + after


def _transform_us(
    multiprocessor: Multiprocessor,
    threads: TransformThreads,
    *,
    blocks: int,
    moved: int,
    operations: int,
    elements: int,
) -> float:
    """Microseconds of a transform in so many blocks of threads. For each channel of a tile ``moved`` elements
    pass the second-level cache, and ``operations`` are computed; memory moves ``elements`` in all.
    """
    each = threads.channels * threads.tiles
    copied = each * moved * FLOAT_BYTES / multiprocessor.l2_bytes_per_cycle
    computed = each * operations / multiprocessor.float_macs
    cycles = LATENCY_CYCLES + ceil(blocks / multiprocessor.count) * max(copied, computed)
    memory = elements * FLOAT_BYTES / (multiprocessor.gigabytes_per_second * 1e3)
    return max(cycles / (multiprocessor.gigahertz * 1e3), memory) + multiprocessor.launch_us


def _terms(matrix: Matrix) -> int:
    """Factors of a matrix that are not zero."""
    return sum(factor != 0 for row in matrix for factor in row)
