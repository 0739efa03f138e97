"""The space of the direct convolution's knobs, each with an estimate of its cost.

The estimate adds cycles of the inner loop (bounded by multiply-accumulate throughput, by loads and by
the latency of the accumulators), the share of work that overlapping tail tiles repeat, the balance
between threads, and the traffic to the level-2 cache.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from topi_ext.arithmetic_costs import step_costs
from topi_ext.divisors import divisors
from topi_ext.indexing import block_of, physical_axes
from topi_ext.knobs import (
    DTYPE_BYTES,
    ConvolutionKnobs,
    Order,
    PadAt,
    fuses_rows,
    lanes_are_pixels,
    may_prefetch,
    met_share,
    most_steps,
    pads_by_chunk,
    parts_of_block,
    tiled_channels,
)
from topi_ext.matrix_space import CONFIGURATION_CYCLES, LANES, matrix_tiles
from topi_ext.processor import LINE_BYTES, Processor
from topi_ext.workload import BYTES, PLANES, ConvolutionWorkload

SHARED_LINE_PENALTY = 4.0
"""Measured: 24 channels of NHWC split between two threads take 3 to 5 times as long."""

STREAM_PENALTY = 0.06
"""Measured: tiles of two vectors of channels come closest to their estimate; with one, every multiply-add
reads memory, and with more, the streams of weights compete for cache sets."""

WIDEST_ROW = 12
"""Vectors of one pixel that are summed at once where loads are instructions of their own: as many as hide the
latency of multiply-adds, and what a loop takes besides."""
MOST_SERIAL = 4.0
"""Kernels of one thread are worth measuring up to that many times the work from which threads should pay."""

CACHED_BYTES = 128 << 10
"""Weights up to this size stay in the level-2 cache from one run of a network to the next."""

CACHED_BYTES_PER_CYCLE = 32.0

L2_CYCLES_PER_VECTOR = 2.0
"""Measured on 512 channels of 3 taps in tiles of 3 pixels and 4 vectors of channels: 2.2."""

MOST_UNROLLED = 4
"""Longest row of a kernel that the compiler unrolls."""

SPILL_CYCLES = 0.5
"""Measured: what each register too few costs a step of first layers."""

AGAIN_BYTES_PER_CYCLE = 16.0
"""From the last-level cache for each thread, where weights come again and again in the same order."""

KEPT_SHARE = 0.8
"""Of the level-2 cache, what weights may fill and stay from one tile of pixels to the next."""

LOOP_CYCLES = 0.5
"""Modelled: what counting and the addresses take of a loop whose multiply-adds read lanes of registers."""

SINGLE_LOADS_PENALTY = 1.04
"""Modelled: such loops where the registers do not hold the data as vectors, so that elements are loaded."""

BYTE_PIXELS_PENALTY = 2.0
"""Depthwise convolutions of bytes with channels last, whose vectors are quarters of cache lines: measured 1.1
to 1.7, and as the estimates of all depthwise convolutions are low, this chooses the faster networks."""

UNUSUAL_PREFETCH_PENALTY = 1.02
"""For asking ahead where that seldom pays, or not asking where it often does."""

PIXEL_LANE_PENALTY = 2.0
"""Measured: a convolution with vectors along rows takes about twice the cycles its tile needs."""


def direct_knobs(
    workload: ConvolutionWorkload, processor: Processor, like: ConvolutionKnobs | None = None
) -> Iterator[tuple[float, ConvolutionKnobs]]:
    """The space of the direct convolution: all knobs worth trying, each with its estimated cycles.

    Of tiles of vectors, those alone that are as the one of ``like``, where it is given.
    """
    for tile in _tiled_loops(workload, processor, like):
        yield from _knobs_of_tile(workload, processor, tile)


def cheapest_direct(workload: ConvolutionWorkload, processor: Processor) -> tuple[float, ConvolutionKnobs]:
    """The first of the least estimated cycles in :func:`direct_knobs`, without estimating all of them."""
    best: tuple[float, int, ConvolutionKnobs] | None = None
    tiles = enumerate(_tiled_loops(workload, processor))
    # A tile's own cycles are the least that any order of its loops takes.
    for place, tile in sorted(tiles, key=lambda tile: tile[1].cycles):
        if best is not None and tile.cycles > best[0]:
            break
        for cycles, knobs in _knobs_of_tile(workload, processor, tile):
            if best is None or (cycles, place) < best[:2]:
                best = cycles, place, knobs
    assert best is not None, "there is a tile of one vector at least"
    return best[0], best[2]


@dataclass(frozen=True)
class _TiledLoops:
    """The loops around one register tile: its knobs, and their cycles on one thread, traffic apart."""

    lanes: int
    tile_pixels: int
    tile_channels: int
    steps: int
    cycles: float
    matrix_rows: int = 0
    tile_rows: int = 1


def _tiled_loops(
    workload: ConvolutionWorkload, processor: Processor, like: ConvolutionKnobs | None = None
) -> Iterator[_TiledLoops]:
    wanted = None if like is None else (like.lanes, like.tile_pixels, like.tile_channels)
    lanes, channel_vectors, pixels = vector_axes(workload, processor)
    rows = 1 if fuses_rows(workload) else int(workload.out_height)
    for width in _vector_lengths(workload, processor, lanes):
        for tile_pixels, tile_channels in _register_tiles(
            workload, processor, width, channel_vectors, pixels
        ):
            if wanted not in (None, (width, tile_pixels, tile_channels)):
                continue
            steps = _steps(workload, processor, width, tile_pixels, tile_channels)
            cycles = _tile_cycles(workload, processor, width, tile_pixels, tile_channels, steps)
            tiles = math.ceil(pixels / tile_pixels) * math.ceil(channel_vectors / tile_channels)
            cycles *= workload.planes * tiles * rows * parts_of_block(workload, width)
            yield _TiledLoops(width, tile_pixels, tile_channels, steps, cycles)
    if lanes != LANES:
        return
    for tile in matrix_tiles(workload, processor, pixels, channel_vectors):
        across = math.ceil(pixels / tile.pixels) * math.ceil(channel_vectors / tile.vectors)
        cycles = tile.cycles * workload.planes * across * math.ceil(rows / tile.rows)
        yield _TiledLoops(lanes, tile.pixels, tile.vectors, tile.steps, cycles, tile.matrix_rows, tile.rows)


def _vector_lengths(workload: ConvolutionWorkload, processor: Processor, lanes: int) -> list[int]:
    """``lanes``, and for depthwise convolutions of longer blocks of channels those of one register."""
    native = processor.lanes(DTYPE_BYTES[workload.out_dtype])
    blocked = block_of(workload.out_layout, "C") == lanes and lanes % native == 0
    parts = workload.is_depthwise and blocked and not workload.padded_lanes and not processor.memory_operands
    return [lanes, native] if parts and lanes > native else [lanes]


def _knobs_of_tile(
    workload: ConvolutionWorkload, processor: Processor, tile: _TiledLoops
) -> Iterator[tuple[float, ConvolutionKnobs]]:
    _, channel_vectors, pixels = vector_axes(workload, processor)
    for order, chunk_rows, pad_at in _orders(workload, tile):
        knobs = ConvolutionKnobs(
            tile.lanes,
            tile.tile_pixels,
            tile.tile_channels,
            order,
            chunk_rows,
            pad_at,
            processor.prefetch,
            steps=tile.steps,
            matrix_rows=tile.matrix_rows,
            tile_rows=tile.tile_rows,
        )
        cost = tile.cycles * imbalance(workload, processor, knobs, pixels, channel_vectors)
        cost *= 1.0 + (SHARED_LINE_PENALTY - 1.0) * _shared_lines(workload, processor, knobs)
        cost += traffic_cycles(workload, processor, knobs)
        if tile.matrix_rows:
            cost += CONFIGURATION_CYCLES * _chunks(workload, knobs, pixels, channel_vectors)
        cost += processor.threads * processor.launch_cycles
        if processor.prefetch and may_prefetch(workload, knobs):
            knobs = replace(knobs, prefetch=processor.prefetch_again)
            yield cost * UNUSUAL_PREFETCH_PENALTY, replace(knobs, prefetch=not knobs.prefetch)
        yield cost, knobs
        if order == "channels" and chunk_rows == 1 and tile.cycles < MOST_SERIAL * processor.parallel_cycles:
            alone = replace(knobs, parallel=False)
            yield processor.threads * (tile.cycles + traffic_cycles(workload, processor, alone)), alone


def vector_axes(workload: ConvolutionWorkload, processor: Processor) -> tuple[int, int, int]:
    """Lanes of a vector, and whole vectors along the channel axis and along the pixels of a row.

    Where an axis holds a remainder, its last tile overlaps the one before, so a tile may be as long
    as the whole vectors but no longer.
    """
    native = processor.lanes(DTYPE_BYTES[workload.out_dtype])
    row = int(workload.out_width)
    if fuses_rows(workload):
        row *= int(workload.out_height)
    if lanes_are_pixels(workload):
        lanes = min(native, 1 << (row.bit_length() - 1))
        return lanes, workload.out_channels, row // lanes
    block = block_of(workload.out_layout, "C")
    if block > 1:
        return block, workload.out_channels // block, row
    packed = block_of(workload.kernel_layout, "O")
    channels = tiled_channels(workload)
    if workload.padded_lanes:
        return packed, workload.groups * (channels // packed), row
    lanes = packed if packed > 1 else min(native, 1 << (channels.bit_length() - 1))
    return lanes, workload.out_channels // channels * (channels // lanes), row


def _register_tiles(
    workload: ConvolutionWorkload, processor: Processor, lanes: int, channel_vectors: int, pixels: int
) -> list[tuple[int, int]]:
    """Tiles whose accumulators and operands fit the register file together."""
    registers = math.ceil(lanes * DTYPE_BYTES[workload.out_dtype] / processor.vector_bytes)
    group_vectors = 1 if workload.is_depthwise else max(1, channel_vectors // workload.groups)
    tiles = []
    widest = WIDEST_ROW if pixels == 1 and not processor.memory_operands else 4
    for tile_channels, tile_pixels in itertools.product(range(1, widest + 1), range(1, 29)):
        if tile_channels > group_vectors or tile_pixels > pixels:
            continue
        accumulators = tile_channels * tile_pixels * registers
        streams = tile_channels * registers
        # One vector of channels lets the compiler broadcast from memory inside the multiply-add.
        operands = streams + 1 if streams > 1 else 3
        if lanes_are_pixels(workload):
            operands = streams + tile_pixels
        elif workload.is_depthwise and not processor.memory_operands:
            operands = streams + accumulators
        if accumulators + operands + processor.registers_in_flight <= processor.vector_registers:
            tiles.append((tile_pixels, tile_channels))
    return tiles or [(1, 1)]


def _holds_data(
    workload: ConvolutionWorkload, processor: Processor, lanes: int, tile_pixels: int, tile_channels: int
) -> bool:
    """Do the registers of a tile hold a vector of the data for each pixel, too?"""
    registers = math.ceil(lanes * DTYPE_BYTES[workload.out_dtype] / processor.vector_bytes)
    streams = tile_channels * registers
    needed = tile_pixels * streams + streams + tile_pixels
    return needed + processor.registers_in_flight <= processor.vector_registers


def _steps(
    workload: ConvolutionWorkload, processor: Processor, lanes: int, tile_pixels: int, tile_channels: int
) -> int:
    """Channels of the data to load at once, where multiply-adds read lanes of registers."""
    if processor.memory_operands or not _holds_data(workload, processor, lanes, tile_pixels, tile_channels):
        return 1
    return most_steps(workload, tile_pixels)


def _tile_cycles(
    workload: ConvolutionWorkload,
    processor: Processor,
    lanes: int,
    tile_pixels: int,
    tile_channels: int,
    steps_at_once: int,
) -> float:
    """Cycles of one register tile over its whole reduction, with the work around the loop."""
    registers = math.ceil(lanes * DTYPE_BYTES[workload.out_dtype] / processor.vector_bytes)
    accumulators = tile_pixels * tile_channels * registers
    loads: float
    if lanes_are_pixels(workload):
        # Most vectors of a row start inside a cache line and are read as two.
        loads = 2 * tile_pixels * registers + tile_channels
        if workload.strides[1] > 1:
            loads = tile_pixels * lanes + tile_channels
    elif workload.is_depthwise:
        loads = tile_pixels * tile_channels * registers + tile_channels * registers
    else:
        loads = tile_pixels / steps_at_once + tile_channels * registers
    taps = workload.taps * met_share(workload, 0)
    if workload.depth:
        taps *= met_share(workload, PLANES)
    if not lanes_are_pixels(workload):
        taps *= met_share(workload, 1, tile_pixels)
    steps = workload.group_in_channels * taps
    if workload.word_axis:
        steps /= workload.word
    costs = step_costs(workload, processor, accumulators)
    cycles = max(costs.cycles, loads / processor.loads_per_cycle, costs.latency)
    if lanes_are_pixels(workload):
        cycles *= PIXEL_LANE_PENALTY
    elif workload.is_depthwise and workload.kernel[1] > 1:
        # The compiler keeps data that several taps share, beside the accumulators.
        cycles += max(0, 2 * accumulators + tile_channels * registers - processor.vector_registers)
    elif not workload.is_depthwise:
        cycles *= 1.0 + STREAM_PENALTY * abs(tile_channels * registers - 2)
        again = tile_pixels > 1 and processor.memory_operands
        if again and _outgrow_l1(workload, processor, lanes * tile_channels):
            cycles = max(cycles, L2_CYCLES_PER_VECTOR * tile_channels * registers)
        live = accumulators + tile_channels * registers + costs.registers
        live += _shared_pixels(workload, tile_pixels)
        cycles += SPILL_CYCLES * max(0, live - processor.vector_registers)
        if not processor.memory_operands and not workload.word_axis:
            at_once = max(steps_at_once, block_of(workload.data_layout, "C"))
            cycles += LOOP_CYCLES / at_once
            if at_once > 1 and not _holds_data(workload, processor, lanes, tile_pixels, tile_channels):
                cycles *= SINGLE_LOADS_PENALTY
    # Storing the tile, loading the epilogue's operands, and filling the pipeline again.
    overhead = 12 + 2.0 * accumulators
    return (steps * cycles + overhead) * (BYTE_PIXELS_PENALTY if _byte_pixels(workload) else 1.0)


def _outgrow_l1(workload: ConvolutionWorkload, processor: Processor, channels: int) -> bool:
    """Whether the weights of a tile of so many channels come from the level-2 cache for every tile."""
    taps = workload.group_in_channels * workload.taps
    return taps * channels * DTYPE_BYTES[workload.weight_dtype] > processor.l1_bytes // 2


def _byte_pixels(workload: ConvolutionWorkload) -> bool:
    """Is it depthwise, of bytes whose channels are not in blocks?"""
    return workload.is_depthwise and workload.dtype in BYTES and workload.data_layout == "NHWC"


def _shared_pixels(workload: ConvolutionWorkload, tile_pixels: int) -> int:
    """Elements (or words) of the data that the compiler keeps broadcast: those that several taps meet."""
    word = workload.word if workload.word_axis == "W" else 1
    taps, stride, step = workload.kernel[1] // word, workload.strides[1], workload.dilation[1] * word
    if physical_axes(workload.data_layout)[-1] != ("W", 0) or taps > MOST_UNROLLED:
        return 0
    met = Counter(pixel * stride + tap * step for pixel in range(tile_pixels) for tap in range(taps))
    return sum(times > 1 for times in met.values())


def _orders(workload: ConvolutionWorkload, loops: _TiledLoops) -> list[tuple[Order, int, PadAt]]:
    lanes, tile_pixels = loops.lanes, loops.tile_pixels
    if fuses_rows(workload):
        # Of single pixels: those of NCHW that fill no vector need a tile as well.
        step = tile_pixels * lanes if lanes_are_pixels(workload) else tile_pixels
        run = int(workload.out_height) * int(workload.out_width)
        chunks = math.ceil(run / step)
        pad_at: PadAt = "chunk" if workload.is_copied and run % step == 0 else "stage"
        return [("channels", 1, "stage"), *(("pixels", rows, pad_at) for rows in divisors(chunks))]
    if "H" not in workload.out_layout:
        return [("channels", 1, "stage")]
    height = math.ceil(int(workload.out_height) / loops.tile_rows)
    copied = workload.is_copied and int(workload.out_height) % loops.tile_rows == 0
    if workload.is_depthwise:
        tile = loops.tile_channels * (1 if lanes_are_pixels(workload) else lanes)
        chunked = copied and pads_by_chunk(workload, tile)
        by_channels: list[tuple[Order, int, PadAt]] = [
            ("channels", rows, "chunk" if chunked else "stage") for rows in divisors(height)
        ]
        if _byte_pixels(workload):
            # The channels of a cache line are not for several threads.
            return [("pixels", rows, pad_at) for _, rows, pad_at in by_channels]
        return by_channels
    orders: list[tuple[Order, int, PadAt]] = [("channels", 1, "stage")]
    return orders + [("pixels", rows, "chunk" if copied else "stage") for rows in divisors(height)]


def _shared_lines(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> float:
    """The share of the cache lines of NHWC that two threads write, which split its channels.

    A thread takes neighbouring channels of an image, so that two of them meet once in the lines of a pixel.
    """
    if knobs.order != "channels" or workload.out_layout not in ("NHWC", "NWC") or processor.threads == 1:
        return 0.0
    size = DTYPE_BYTES[workload.out_dtype]
    tile = knobs.lanes * knobs.tile_channels
    whole = tile * size % LINE_BYTES == 0 and workload.out_channels * size % LINE_BYTES == 0
    images = workload.batch if isinstance(workload.batch, int) else 1
    if whole or tile >= workload.out_channels or images % processor.threads == 0:
        return 0.0
    return min(1.0, (processor.threads - 1) * LINE_BYTES / (workload.out_channels * size))


def imbalance(
    workload: ConvolutionWorkload,
    processor: Processor,
    knobs: ConvolutionKnobs,
    pixels: int,
    channel_vectors: int,
) -> float:
    """How much longer the busiest thread works than an even share."""
    if not knobs.parallel:
        return float(processor.threads)
    chunks = _chunks(workload, knobs, pixels, channel_vectors)
    threads = processor.threads
    return math.ceil(chunks / threads) * threads / chunks


def _chunks(workload: ConvolutionWorkload, knobs: ConvolutionKnobs, pixels: int, channel_vectors: int) -> int:
    """Turns of the parallel loop."""
    if fuses_rows(workload):
        rows = math.ceil(pixels / knobs.tile_pixels)
    else:
        rows = math.ceil(int(workload.out_height) / knobs.tile_rows)
    chunks = workload.planes * math.ceil(rows / knobs.rows)
    return chunks * (math.ceil(channel_vectors / knobs.tile_channels) if knobs.order == "channels" else 1)


def _panels_again(
    workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs, passes: int
) -> float:
    """Cycles spent on the weights of a tile's channels where they do not stay in the level-2 cache.

    Every tile of pixels then reads them from beyond it: a product that sums thousands of channels is faster
    with tiles of fewer channels.
    """
    channels = knobs.tile_channels * (1 if lanes_are_pixels(workload) else knobs.lanes)
    panel = workload.group_in_channels * workload.taps * channels * DTYPE_BYTES[workload.dtype]
    if panel <= KEPT_SHARE * processor.l2_bytes:
        return 0.0
    batch = workload.batch if isinstance(workload.batch, int) else 1
    pixels = batch * int(workload.out_height) * int(workload.out_width)
    turns = math.ceil(pixels / (knobs.tile_pixels * (knobs.lanes if lanes_are_pixels(workload) else 1)))
    return panel * (turns - 1) * passes / AGAIN_BYTES_PER_CYCLE


def _read_share(workload: ConvolutionWorkload) -> float:
    """The share of an image's cache lines that kernels shorter than their strides read."""
    rows, columns = (
        min(1.0, ((taps - 1) * dilation + 1) / stride)
        for _, taps, stride, _, _, dilation in (workload.along(0), workload.along(1))
    )
    block, innermost = block_of(workload.data_layout, "C"), physical_axes(workload.data_layout)[-1]
    run = block if block > 1 else workload.in_channels if innermost == ("C", 0) else 1
    lines = run * DTYPE_BYTES[workload.dtype] >= LINE_BYTES
    return rows * columns if lines else rows


def traffic_cycles(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> float:
    """Cycles spent on weights and rows that come from beyond the level-2 cache, and on padding."""
    size = DTYPE_BYTES[workload.dtype]
    batch = workload.batch if isinstance(workload.batch, int) else 1
    image = workload.in_channels * int(workload.in_height) * int(workload.in_width) * size
    image *= workload.depth[0] if workload.depth else 1
    weights = workload.out_channels * workload.group_in_channels * workload.taps * size
    half_l2 = processor.l2_bytes // 2
    bytes_per_cycle = 8.0
    padding = 0.0
    if workload.is_copied:
        # With its border, in the dtype that is multiplied.
        wide = DTYPE_BYTES[workload.weight_dtype] // size
        copied = float(image * batch * wide)
        if knobs.pad_at == "chunk":
            reach = (workload.kernel[0] - 1) * workload.dilation[0] + 1
            rows = knobs.rows * knobs.tile_rows
            needed = (rows - 1) * workload.strides[0] + reach
            copied *= needed / (rows * workload.strides[0])
            chunk = needed * int(workload.in_width) * workload.in_channels * size * wide
            if workload.depth:
                # The planes that a plane of the result needs are copied for it alone.
                copied *= workload.depth[1] / workload.depth[2]
                chunk *= workload.depth[1]
            if workload.is_depthwise and knobs.order == "channels":
                chunk = chunk * knobs.lanes // workload.in_channels
            # A chunk that stays in the cache is read back for free; a longer one is not.
            copied *= 1 if chunk <= half_l2 else 4
            padding = copied / 32
        else:
            padding = copied / 8 + (processor.threads * processor.launch_cycles if knobs.parallel else 0)
    if workload.is_depthwise:
        return padding
    if "H" in workload.out_layout:
        # Weights come from memory once, whatever the order; few of them stay in the cache.
        padding += weights / (bytes_per_cycle if weights >= CACHED_BYTES else CACHED_BYTES_PER_CYCLE)
    channels = knobs.tile_channels * (1 if lanes_are_pixels(workload) else knobs.lanes)
    passes = max(1, workload.out_channels // channels)
    read = image * _read_share(workload)
    if knobs.order == "channels":
        again = read * batch * (passes - 1) if read > half_l2 else 0
        return padding + again / bytes_per_cycle + _panels_again(workload, processor, knobs, passes)
    if fuses_rows(workload):
        run = int(workload.out_height) * int(workload.out_width)
        chunks = math.ceil(run / (knobs.tile_pixels * knobs.rows))
    else:
        chunks = math.ceil(int(workload.out_height) / (knobs.rows * knobs.tile_rows))
    again = weights * max(workload.planes * chunks, processor.threads) if weights > half_l2 else 0
    window = read * workload.depth[1] / workload.depth[0] if workload.depth else read
    if window / chunks > half_l2:
        # Every tile of channels goes through the rows of its chunk, in each of the planes that it meets.
        again += window * workload.planes * (passes - 1)
    return padding + again / AGAIN_BYTES_PER_CYCLE
