"""The space of the Winograd convolution's knobs, with estimated cycles."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from math import ceil, prod
from typing import get_args

from topi_ext.divisors import divisors
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import block_of
from topi_ext.knobs import Order, PadAt, WinogradKnobs
from topi_ext.machine.processor import LAST_CACHE_BYTES, Processor
from topi_ext.spaces.arithmetic_costs import step_costs
from topi_ext.spaces.register_tile import L2_CYCLES_PER_VECTOR, STREAM_PENALTY
from topi_ext.spaces.typical_sizes import SCALES
from topi_ext.winograd import tile_grid
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.facts import strip_of, suits_winograd, winograd_tile_sizes, winograd_tiles

SUM_BYTES = 4
"""Bytes of an accumulator or a result, float32 or int32."""

SMALLEST_VECTOR = 4
"""Lanes of the shortest vector: channel counts that are no multiple of it have no Winograd kernel."""

DATA_CYCLES = {2: 40.0, 4: 120.0}
RESULT_CYCLES = {2: 30.0, 4: 100.0}
"""Cycles to transform one vector register of channels of one tile, input or result, by the side of the
tile."""

REGION_LAUNCHES = 2
"""The cost of a parallel region, in those of starting it on each thread: stages wait for the last thread.
Measured on two threads."""

ANY_SIZE_CHUNKS = (2, 4, 6, 7, 8, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
"""Tiles in a chunk for images of dynamic size, chosen to have many divisors for register tiles."""

OVERLAP = 0.75
"""The share of the shorter of two phases, fetching weights and multiplying, that overlaps with the longer."""


@dataclass(frozen=True)
class WinogradLoops:
    """Cycles of the inner loops.

    ``step``: one step of the products of a register tile; ``data`` and ``result``: the transform of one
    vector register of channels of one tile, of the input and of the result.
    """

    step: float
    data: float
    result: float


def winograd_knobs(
    workload: ConvolutionWorkload, processor: Processor
) -> Iterator[tuple[float, WinogradKnobs]]:
    """All knobs worth trying, each with its estimated cycles over all threads.

    None for workloads without a Winograd kernel, and for images of dynamic size.
    """
    if not suits_winograd(workload) or not all(
        isinstance(extent, int) for extent in (workload.in_height, workload.in_width)
    ):
        return
    for tile in winograd_tile_sizes(workload):
        rows, columns = winograd_tiles(workload, tile)
        pad_at: PadAt = "chunk" if has_border(workload, tile) else "stage"
        found = [
            _all_knobs(workload, processor, tile, columns * count, "pixels", count, pad_at)
            for count in divisors(rows)
        ]
        found.append(_all_knobs(workload, processor, tile, columns * rows, "channels"))
        for knobs in itertools.chain.from_iterable(found):
            yield winograd_cycles(workload, processor, knobs), knobs


def winograd_any_size_knobs(
    workload: ConvolutionWorkload, processor: Processor
) -> Iterator[tuple[float, WinogradKnobs]]:
    """As :func:`winograd_knobs`, for images of dynamic size; ``workload`` has a typical size.

    The cycles are averages over images around that size, each scaled to the pixels of the typical one.
    """
    if not suits_winograd(workload) or workload.depth:
        return
    height, width = int(workload.out_height), int(workload.out_width)
    sizes = Counter((max(1, round(height * scale)), max(1, round(width * scale))) for scale in SCALES)
    for tile in winograd_tile_sizes(workload):
        # For each size: the tiles of all images, and the weight of its cycles.
        tiles = [
            (
                workload.planes * prod(tile_grid(*size, tile)),
                count * height * width / prod(size) / len(SCALES),
            )
            for size, count in sizes.items()
        ]
        strip = cache(partial(strip_of, workload, tile))
        for order, chunk in itertools.product(get_args(Order), ANY_SIZE_CHUNKS):
            for knobs in _all_knobs(workload, processor, tile, chunk, order, chunk):
                loops = _estimated_loops(workload, processor, knobs)
                cycles = (
                    share * _strip_cycles(strip, processor, knobs, loops, number) for number, share in tiles
                )
                yield sum(cycles), knobs


def _strip_cycles(
    strip: Callable[[int], ConvolutionWorkload],
    processor: Processor,
    knobs: WinogradKnobs,
    loops: WinogradLoops,
    tiles: int,
) -> float:
    """Cycles of so many tiles, whatever images they are of; the last chunk of ``knobs.rows`` is shorter.

    ``strip`` gives the convolution of one image of so many tiles.
    """
    whole = ceil(tiles / knobs.tile_pixels) * knobs.tile_pixels
    turns = ceil(tiles / knobs.rows) if knobs.order == "channels" else 1
    return winograd_cycles(strip(whole), processor, knobs, loops, turns)


def _all_knobs(
    workload: ConvolutionWorkload,
    processor: Processor,
    tile: int,
    pixels: int,
    order: Order,
    rows: int = 1,
    pad_at: PadAt = "stage",
) -> Iterator[WinogradKnobs]:
    """The knobs with chunks of ``pixels`` Winograd tiles."""
    in_lanes = _lanes(workload.in_channels, block_of(workload.data_layout, "C"), processor)
    out_lanes = _lanes(workload.out_channels, block_of(workload.out_layout, "C"), processor)
    if min(in_lanes, out_lanes) < SMALLEST_VECTOR:
        return
    vectors = workload.out_channels // out_lanes
    for register_tile in _register_tiles(workload, pixels, vectors, out_lanes, processor):
        yield WinogradKnobs(
            tile, in_lanes, out_lanes, *register_tile, order, rows, pad_at, processor.prefetch
        )


def has_border(workload: ConvolutionWorkload, tile: int) -> bool:
    """Do tiles read outside of the image, which must then be copied with a border of zeros?"""
    return bool(workload.is_padded or workload.out_height % tile or workload.out_width % tile)


def _lanes(channels: int, block: int, processor: Processor) -> int:
    """Lanes of a vector of channels: the block, or the largest power of two that divides and fits a
    register.
    """
    return block if block > 1 else min(processor.lanes(SUM_BYTES), channels & -channels)


def _register_tiles(
    workload: ConvolutionWorkload, pixels: int, channel_vectors: int, lanes: int, processor: Processor
) -> list[tuple[int, int]]:
    registers = max(1, lanes * SUM_BYTES // processor.vector_bytes)
    tiles = []
    for tile_pixels, tile_channels in itertools.product(divisors(pixels), divisors(channel_vectors)):
        streams = tile_channels * registers
        operands = streams + 1 if streams > 1 else 2
        operands += step_costs(workload, processor, 1, processor.vector_bytes).registers
        if streams <= 4 and tile_pixels * streams + operands <= processor.vector_registers:
            tiles.append((tile_pixels, tile_channels))
    # Few accumulators wait for each other.
    fullest = max((first * second for first, second in tiles), default=0)
    return [(first, second) for first, second in tiles if 4 * first * second >= fullest]


def winograd_cycles(
    workload: ConvolutionWorkload,
    processor: Processor,
    knobs: WinogradKnobs,
    loops: WinogradLoops | None = None,
    turns: int = 1,
) -> float:
    """Cycles over all threads; ``loops`` are those of the compiled kernel, else estimated.

    In order "channels" a thread computes all tiles of its channels in so many ``turns``.
    """
    rows, columns = winograd_tiles(workload, knobs.tile)
    batch, threads = workload.planes, processor.threads
    tiles = batch * rows * columns
    extent = knobs.tile + 2
    registers = max(1, knobs.out_lanes * SUM_BYTES // processor.vector_bytes)
    accumulators = knobs.tile_pixels * knobs.tile_channels * registers
    loops = loops or _estimated_loops(workload, processor, knobs)
    products = tiles / knobs.tile_pixels * workload.out_channels / (knobs.out_lanes * knobs.tile_channels)
    steps = workload.summed_planes // workload.word
    multiply = extent**2 * products * (steps * loops.step + 12 + 2 * accumulators)
    data_bytes = DTYPE_BYTES[workload.dtype]
    in_vectors = tiles * workload.summed_planes * data_bytes / processor.vector_bytes
    out_vectors = tiles * workload.out_channels * SUM_BYTES / processor.vector_bytes
    narrow = max(1.0, processor.lanes(data_bytes) / knobs.in_lanes)
    transform = in_vectors * loops.data * narrow + out_vectors * loops.result
    # What the chunks, which threads share, are made of, and how many of them are one.
    parts, size = batch * rows, knobs.rows
    if knobs.order == "channels":
        parts, size = batch * workload.out_channels // (knobs.out_lanes * knobs.tile_channels), 1
    chunks = ceil(parts / size)
    imbalance = min(parts, ceil(chunks / threads) * size) * threads / parts
    # Weights and tiles are fetched while the products are computed.
    fetch = _weight_cycles(workload, processor, knobs, chunks, turns) + _rereads(
        workload, processor, knobs, tiles, chunks
    )
    multiply *= imbalance
    busy = max(multiply, fetch) + (1 - OVERLAP) * min(multiply, fetch)
    return transform * imbalance + busy + _traffic(workload, processor, knobs, tiles, chunks)


def _estimated_loops(
    workload: ConvolutionWorkload, processor: Processor, knobs: WinogradKnobs
) -> WinogradLoops:
    streams = knobs.tile_channels * max(1, knobs.out_lanes * SUM_BYTES // processor.vector_bytes)
    vector_bytes = knobs.out_lanes * SUM_BYTES
    costs = step_costs(workload, processor, knobs.tile_pixels * streams, vector_bytes)
    loads = knobs.tile_pixels + processor.passes(vector_bytes) * streams
    step = max(costs.cycles, loads / processor.loads_per_cycle, costs.latency)
    step *= 1.0 + STREAM_PENALTY * abs(streams - 2)
    if workload.summed_planes // workload.word * streams * processor.vector_bytes > processor.l1_bytes // 2:
        # The weights of the tile come from the level-2 cache each time.
        step = max(step, L2_CYCLES_PER_VECTOR * streams)
    passes = processor.vector_passes
    return WinogradLoops(step, passes * DATA_CYCLES[knobs.tile], passes * RESULT_CYCLES[knobs.tile])


def _weight_cycles(
    workload: ConvolutionWorkload, processor: Processor, knobs: WinogradKnobs, chunks: int, turns: int
) -> float:
    """Cycles to load the transformed weights from beyond the level-2 cache."""
    places = (knobs.tile + 2) ** 2 * DTYPE_BYTES[workload.dtype]
    weights = places * workload.summed_planes * workload.out_channels
    read, times = (weights, chunks) if knobs.order == "pixels" else (weights / chunks, turns)
    again = times - 1 if read > processor.l2_bytes // 2 else 0
    return weights / processor.memory_bytes_per_cycle + weights * again / processor.cache_bytes_per_cycle


def _traffic(
    workload: ConvolutionWorkload, processor: Processor, knobs: WinogradKnobs, tiles: int, chunks: int
) -> float:
    """Cycles to move activations beyond the level-2 cache, and of the parallel regions."""
    places = (knobs.tile + 2) ** 2
    spread = places * tiles * workload.summed_planes * DTYPE_BYTES[workload.dtype]
    products = places * tiles * workload.out_channels * SUM_BYTES
    planes = int(workload.out_depth) * int(workload.in_height) * int(workload.in_width)
    planes *= DTYPE_BYTES[workload.data_dtype]
    region = cycles = REGION_LAUNCHES * processor.threads * processor.launch_cycles
    bordered = has_border(workload, knobs.tile)
    if bordered and knobs.pad_at == "stage":
        cycles += region + planes * workload.in_channels / processor.cache_bytes_per_cycle
    elif bordered:
        rows = knobs.rows * knobs.tile
        padded = planes * workload.summed_planes
        cycles += padded / processor.cache_bytes_per_cycle / 4 * (rows + 2) / rows
    if knobs.order == "pixels":
        chunk = (spread + products) / chunks
        if chunk > processor.l2_bytes:
            # Each thread has a chunk in the cache at the same time.
            cycles += 2 * chunk * chunks / _rate(processor, chunk * min(chunks, processor.threads))
        return cycles
    if products / chunks > processor.l2_bytes // 2:
        cycles += 2 * products / processor.cache_bytes_per_cycle
    # What one thread writes, others read first: it moves between their caches.
    return cycles + region + 2 * spread / _rate(processor, spread)


def _rereads(
    workload: ConvolutionWorkload, processor: Processor, knobs: WinogradKnobs, tiles: int, chunks: int
) -> float:
    """Cycles to read the transformed image again for each chunk of output channels."""
    if knobs.order == "pixels":
        return 0.0
    spread = (knobs.tile + 2) ** 2 * DTYPE_BYTES[workload.dtype] * tiles * workload.summed_planes
    passes = chunks if spread > processor.l2_bytes // 2 else processor.threads
    return spread * passes / _rate(processor, spread)


def _rate(processor: Processor, size: float) -> float:
    """Bytes per cycle at which ``size`` bytes are written and read back."""
    if size > LAST_CACHE_BYTES:
        return processor.memory_bytes_per_cycle / 2
    return processor.cache_bytes_per_cycle
