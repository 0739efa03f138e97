"""What the direct convolution's knobs cost around its register tiles, in cycles.

The balance between threads, the cache lines that they share, and the traffic to the level-2 cache.
:mod:`topi_ext.spaces.direct` adds these to the cycles of all tiles (:mod:`topi_ext.spaces.register_tile`),
those that overlap at the end of an axis among them.
"""

import math

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import block_of, physical_axes
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.machine.processor import LINE_BYTES, Processor
from topi_ext.workloads.convolution import COLUMNS, ROWS, ConvolutionWorkload
from topi_ext.workloads.facts import fuses_rows, lanes_are_pixels, pixel_run

SHARED_LINE_PENALTY = 4.0
"""The factor for cache lines that two threads write. Measured: 24 NHWC channels split between two threads
take 3 to 5 times as long."""

CACHED_BYTES = 128 << 10
"""Weights up to this size stay in the level-2 cache from one run of a network to the next."""

CACHED_BYTES_PER_CYCLE = 32.0
"""The rate at which such weights are read."""

AGAIN_BYTES_PER_CYCLE = 16.0
"""The rate per thread from the last-level cache, for weights that are read repeatedly in the same order."""

KEPT_SHARE = 0.8
"""The share of the level-2 cache that weights may fill and still stay from one tile of pixels to the next."""


def shared_line_penalty(
    workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs
) -> float:
    """The factor for cache lines of an NHWC result that two threads write, as they split its channels.

    A thread takes contiguous channels, so that two threads share at most one cache line per pixel.
    """
    if knobs.order != "channels" or workload.out_layout not in ("NHWC", "NWC") or processor.threads == 1:
        return 1.0
    size = DTYPE_BYTES[workload.out_dtype]
    tile = knobs.lanes * knobs.tile_channels
    whole = tile * size % LINE_BYTES == 0 and workload.out_channels * size % LINE_BYTES == 0
    images = workload.batch if isinstance(workload.batch, int) else 1
    if whole or tile >= workload.out_channels or images % processor.threads == 0:
        return 1.0
    share = min(1.0, (processor.threads - 1) * LINE_BYTES / (workload.out_channels * size))
    return 1.0 + (SHARED_LINE_PENALTY - 1.0) * share


def imbalance(
    workload: ConvolutionWorkload,
    processor: Processor,
    knobs: ConvolutionKnobs,
    pixels: int,
    channel_vectors: int,
) -> float:
    """The time of the busiest thread over an even share; the number of threads for a kernel that uses one."""
    if not knobs.parallel:
        return float(processor.threads)
    chunks = chunk_count(workload, knobs, pixels, channel_vectors)
    threads = processor.threads
    return math.ceil(chunks / threads) * threads / chunks


def chunk_count(
    workload: ConvolutionWorkload, knobs: ConvolutionKnobs, pixels: int, channel_vectors: int
) -> int:
    """Iterations of the parallel loop."""
    if fuses_rows(workload):
        rows = math.ceil(pixels / knobs.tile_pixels)
    else:
        rows = math.ceil(int(workload.out_height) / knobs.tile_rows)
    chunks = workload.planes * math.ceil(rows / knobs.rows)
    return chunks * (math.ceil(channel_vectors / knobs.tile_channels) if knobs.order == "channels" else 1)


def traffic_cycles(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> float:
    """Cycles to load weights and rows from beyond the level-2 cache, and to copy the padded image."""
    size = DTYPE_BYTES[workload.dtype]
    batch = workload.batch if isinstance(workload.batch, int) else 1
    image = workload.in_channels * int(workload.in_height) * int(workload.in_width) * size
    image *= workload.depth[0] if workload.depth else 1
    weights = workload.out_channels * workload.group_in_channels * workload.taps * size
    half_l2 = processor.l2_bytes // 2
    bytes_per_cycle = 8.0
    padding = _copy_cycles(workload, processor, knobs, image * batch) if workload.is_copied else 0.0
    if workload.is_depthwise:
        return padding
    if "H" in workload.out_layout:
        # Weights are read from memory at least once, in any order; small ones stay in the cache.
        padding += weights / (bytes_per_cycle if weights >= CACHED_BYTES else CACHED_BYTES_PER_CYCLE)
    channels = knobs.tile_channels * (1 if lanes_are_pixels(workload) else knobs.lanes)
    passes = max(1, workload.out_channels // channels)
    read = image * _read_share(workload)
    if knobs.order == "channels":
        again = read * batch * (passes - 1) if read > half_l2 else 0
        return padding + again / bytes_per_cycle + _panels_again(workload, processor, knobs, passes)
    if fuses_rows(workload):
        chunks = math.ceil(pixel_run(workload) / (knobs.tile_pixels * knobs.rows))
    else:
        chunks = math.ceil(int(workload.out_height) / (knobs.rows * knobs.tile_rows))
    again = weights * max(workload.planes * chunks, processor.threads) if weights > half_l2 else 0
    window = read * workload.depth[1] / workload.depth[0] if workload.depth else read
    if window / chunks > half_l2:
        # Every tile of channels reads the rows of its chunk, in each plane of its window.
        again += window * workload.planes * (passes - 1)
    return padding + again / AGAIN_BYTES_PER_CYCLE


def _copy_cycles(
    workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs, image_bytes: int
) -> float:
    """Cycles to copy the padded images, converted to the dtype in which they are multiplied."""
    size = DTYPE_BYTES[workload.dtype]
    wide = DTYPE_BYTES[workload.weight_dtype] // size
    copied = float(image_bytes * wide)
    if knobs.pad_at != "chunk":
        return copied / 8 + (processor.threads * processor.launch_cycles if knobs.parallel else 0)
    reach = workload.along(ROWS).window
    rows = knobs.rows * knobs.tile_rows
    needed = (rows - 1) * workload.strides[0] + reach
    copied *= needed / (rows * workload.strides[0])
    chunk = needed * int(workload.in_width) * workload.in_channels * size * wide
    if workload.depth:
        # Each plane of the result copies the planes of its window for itself.
        copied *= workload.depth[1] / workload.depth[2]
        chunk *= workload.depth[1]
    if workload.is_depthwise and knobs.order == "channels":
        chunk = chunk * knobs.lanes // workload.in_channels
    # A chunk that stays in the cache is read back for free.
    copied *= 1 if chunk <= processor.l2_bytes // 2 else 4
    return copied / 32


def _read_share(workload: ConvolutionWorkload) -> float:
    """The share of an image's cache lines that is read; less than 1 for strides longer than the kernel."""
    rows, columns = (
        min(1.0, ((taps - 1) * dilation + 1) / stride)
        for _, taps, stride, _, _, dilation in map(workload.along, (ROWS, COLUMNS))
    )
    block, innermost = block_of(workload.data_layout, "C"), physical_axes(workload.data_layout)[-1]
    run = block if block > 1 else workload.in_channels if innermost == ("C", 0) else 1
    lines = run * DTYPE_BYTES[workload.dtype] >= LINE_BYTES
    return rows * columns if lines else rows


def _panels_again(
    workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs, passes: int
) -> float:
    """Cycles to reload the weights of a tile's channels, if they exceed the level-2 cache.

    Each tile of pixels then reads them from beyond it, which makes tiles of fewer channels faster in products
    that sum thousands of channels.
    """
    channels = knobs.tile_channels * (1 if lanes_are_pixels(workload) else knobs.lanes)
    panel = workload.group_in_channels * workload.taps * channels * DTYPE_BYTES[workload.dtype]
    if panel <= KEPT_SHARE * processor.l2_bytes:
        return 0.0
    batch = workload.batch if isinstance(workload.batch, int) else 1
    pixels = batch * int(workload.out_height) * int(workload.out_width)
    turns = math.ceil(pixels / (knobs.tile_pixels * (knobs.lanes if lanes_are_pixels(workload) else 1)))
    return panel * (turns - 1) * passes / AGAIN_BYTES_PER_CYCLE
