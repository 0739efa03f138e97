"""What a direct convolution moves between caches and memory, and how long that takes.

A simple model of two levels: what is read again while it still fits half of a cache costs nothing, and
everything else is moved once more. Bytes are of all threads together.
"""

from dataclasses import dataclass
from math import ceil

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.machine.processor import Processor
from topi_ext.spaces.direct import vector_axes
from topi_ext.workloads.convolution import PLANES, ROWS, ConvolutionWorkload
from topi_ext.workloads.facts import fuses_rows, lanes_are_pixels, parts_of_block

COPY_BYTES_PER_CYCLE = 8.0
"""Padding rows that stay in the level-1 cache."""

REGION_CYCLES = 8000.0
"""Entering a parallel region of its own, as padding of the whole image does."""


@dataclass(frozen=True)
class Traffic:
    """Bytes from the level-2 cache and from beyond it, and the cycles that padding adds."""

    cache_bytes: float
    memory_bytes: float
    padding_cycles: float

    def cycles(self, processor: Processor) -> float:
        """Cycles in which nothing else is moved."""
        cached = self.cache_bytes / processor.cache_bytes_per_cycle
        return cached + self.memory_bytes / processor.memory_bytes_per_cycle


@dataclass(frozen=True)
class Tiles:
    """How a kernel is cut: register tiles in all, runs of them that share weights, and chunks of rows."""

    count: int
    channel_tiles: int
    chunks: int
    rows: int


def tiles_of(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> Tiles:
    """The tiles of a workload with static extents."""
    _, channel_vectors, pixels = vector_axes(workload, processor)
    flat = fuses_rows(workload)
    across = ceil(pixels / knobs.tile_pixels)
    rows = across if flat else int(workload.out_height)
    channel_tiles = ceil(channel_vectors / knobs.tile_channels)
    count = workload.planes * channel_tiles * (across if flat else across * rows)
    count *= parts_of_block(workload, knobs.lanes)
    return Tiles(count, channel_tiles, workload.planes * ceil(rows / knobs.rows), rows)


def direct_traffic(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> Traffic:
    """The traffic of a direct convolution with static extents."""
    near, far = processor.l1_bytes // 2, processor.l2_bytes // 2
    size = DTYPE_BYTES[workload.dtype]
    reduced = workload.group_in_channels * workload.taps
    tiles = tiles_of(workload, processor, knobs)
    image = workload.batch * workload.in_channels * int(workload.in_height) * int(workload.in_width) * size
    image *= workload.in_depth
    result = workload.planes * workload.out_channels * int(workload.out_height) * int(workload.out_width)
    result *= DTYPE_BYTES[workload.out_dtype]
    weights = workload.out_channels * reduced * size
    panel = weights / tiles.channel_tiles
    window, chunk = _rows_read(workload, knobs, image)
    share = 1 / tiles.channel_tiles if workload.is_depthwise else 1.0
    passes = 1 if workload.is_depthwise else tiles.channel_tiles
    again = 1.0
    if window * share + panel > near and not fuses_rows(workload):
        # Each row of the result reads the rows of its window anew.
        again = max(1.0, workload.kernel[0] / workload.strides[0])
    if workload.depth:
        # A plane of the result reads all planes of its window.
        again *= max(1.0, workload.kernel_depth / workload.along(PLANES).stride)
    if knobs.order == "pixels":
        stays = chunk + panel <= near
        cached = image * again * (1 if stays else passes)
        fetched = image * (passes if chunk > far else 1)
        cached_weights = weights * (tiles.chunks if panel <= near else tiles.count / tiles.channel_tiles)
        fetched_weights = weights * (tiles.chunks if weights > far else 1)
    else:
        cached = image * again * passes
        fetched = image * (passes if image > far else 1)
        cached_weights = weights * (1 if panel <= near else tiles.count / tiles.channel_tiles)
        fetched_weights = weights
    stays_cached = image + result + weights <= far
    memory = fetched_weights + (0 if stays_cached else fetched + result)
    padding = _padding_cycles(workload, processor, knobs, image) if workload.is_copied else 0.0
    return Traffic(cached + cached_weights + result, memory, padding)


def _rows_read(workload: ConvolutionWorkload, knobs: ConvolutionKnobs, image: int) -> tuple[float, float]:
    """Bytes of the data that one row of results reads, and that a chunk does."""
    if fuses_rows(workload):
        size = DTYPE_BYTES[workload.dtype]
        pixels = knobs.tile_pixels * (knobs.lanes if lanes_are_pixels(workload) else 1)
        tile = pixels * workload.in_channels * size
        return tile, tile * knobs.rows
    row = image / workload.batch / max(1, int(workload.in_height))
    reach = workload.along(ROWS).window
    return row * workload.kernel[0], row * ((knobs.rows - 1) * workload.strides[0] + reach)


def _padding_cycles(
    workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs, image: int
) -> float:
    if knobs.pad_at == "stage":
        return REGION_CYCLES + 2 * image / processor.cache_bytes_per_cycle
    reach = workload.along(ROWS).window
    needed = (knobs.rows - 1) * workload.strides[0] + reach
    again = needed / (knobs.rows * workload.strides[0])
    if knobs.order == "channels" and not workload.is_depthwise:
        again *= tiles_of(workload, processor, knobs).channel_tiles
    return image * again / COPY_BYTES_PER_CYCLE
