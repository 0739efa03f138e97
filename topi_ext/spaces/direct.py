"""The space of the direct convolution's knobs, with estimates by :mod:`topi_ext.spaces.direct_costs`."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from topi_ext.codegen import amx
from topi_ext.divisors import divisors
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import block_of
from topi_ext.knobs import ConvolutionKnobs, Order, PadAt, may_prefetch
from topi_ext.machine.processor import Processor
from topi_ext.spaces.arithmetic_costs import multiplies_long
from topi_ext.spaces.direct_costs import chunk_count, imbalance, shared_line_penalty, traffic_cycles
from topi_ext.spaces.matrix import CONFIGURATION_CYCLES, amx_tiles, neon_tiles
from topi_ext.spaces.register_tile import RegisterTile, has_byte_pixels
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.facts import (
    fuses_rows,
    lanes_are_pixels,
    pads_by_chunk,
    parts_of_block,
    pixel_run,
    tiled_channels,
    vector_steps,
)

LONG_WEIGHTS = 2
"""Registers of weights for each vector of channels, where bytes are multiplied to int16."""

LONG_LIVE, LONG_LIVE_IN_ORDER = 9, 8
"""Modelled: live registers of data and pending products in that case, on out-of-order and on in-order
cores; the latter need one more for each vector of sums."""

WIDEST_ROW = 12
"""The most vectors of channels in a tile of one pixel, if multiply-adds have no memory operands: enough to
hide their latency and the loop control."""

MOST_SERIAL = 4.0
"""Kernels on one thread are candidates up to this many times the work from which threads pay."""

UNUSUAL_PREFETCH_PENALTY = 1.02
"""The factor on knobs that prefetch where that seldom pays, or do not where it often does."""


def direct_knobs(
    workload: ConvolutionWorkload, processor: Processor, like: ConvolutionKnobs | None = None
) -> Iterator[tuple[float, ConvolutionKnobs]]:
    """All knobs of the direct convolution worth trying, each with its estimated cycles over all threads.

    With ``like``, of the tiles of vectors only that of ``like``.
    """
    for tile in tiled_loops(workload, processor, like):
        yield from _knobs_of_tile(workload, processor, tile)


def cheapest_direct(workload: ConvolutionWorkload, processor: Processor) -> tuple[float, ConvolutionKnobs]:
    """The minimum of :func:`direct_knobs`, the first among equals, without estimating all of them."""
    best: tuple[float, int, ConvolutionKnobs] | None = None
    tiles = enumerate(tiled_loops(workload, processor))
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
class TiledLoops:
    """The knobs of one register tile, and the cycles of all its tiles on one thread, without memory
    traffic.
    """

    lanes: int
    tile_pixels: int
    tile_channels: int
    steps: int
    cycles: float
    matrix_rows: int = 0
    tile_rows: int = 1


def tiled_loops(
    workload: ConvolutionWorkload, processor: Processor, like: ConvolutionKnobs | None = None
) -> Iterator[TiledLoops]:
    """All register tiles worth trying, with their cycles; ``like`` as of :func:`direct_knobs`."""
    lanes, channel_vectors, pixels = vector_axes(workload, processor)
    rows = 1 if fuses_rows(workload) else int(workload.out_height)
    if workload.paired_words:
        matrices = neon_tiles(workload, processor, lanes, pixels, channel_vectors)
    else:
        yield from _vector_loops(workload, processor, like)
        matrices = amx_tiles(workload, processor, pixels, channel_vectors) if lanes == amx.LANES else iter(())
    for tile in matrices:
        across = math.ceil(pixels / tile.pixels) * math.ceil(channel_vectors / tile.vectors)
        cycles = tile.cycles * workload.planes * across * math.ceil(rows / tile.rows)
        yield TiledLoops(lanes, tile.pixels, tile.vectors, tile.steps, cycles, tile.matrix_rows, tile.rows)


def _vector_loops(
    workload: ConvolutionWorkload, processor: Processor, like: ConvolutionKnobs | None
) -> Iterator[TiledLoops]:
    """The register tiles of vectors."""
    wanted = None if like is None else (like.lanes, like.tile_pixels, like.tile_channels)
    lanes, channel_vectors, pixels = vector_axes(workload, processor)
    rows = 1 if fuses_rows(workload) else int(workload.out_height)
    for width in _vector_lengths(workload, processor, lanes):
        for tile in _register_tiles(workload, processor, width, channel_vectors, pixels):
            if wanted not in (None, (width, tile.pixels, tile.channels)):
                continue
            steps = _steps(tile)
            tiles = _tiles_across(workload, lanes, tile.pixels)
            tiles *= _tiles_down(workload, lanes, channel_vectors, tile.channels)
            tiles *= workload.planes * rows * parts_of_block(workload, width)
            yield TiledLoops(width, tile.pixels, tile.channels, steps, tile.cycles(steps) * tiles)


def _vector_lengths(workload: ConvolutionWorkload, processor: Processor, lanes: int) -> list[int]:
    """``lanes``; for depthwise convolutions with blocks longer than a register also the lanes of one
    register.
    """
    native = processor.lanes(DTYPE_BYTES[workload.out_dtype])
    blocked = block_of(workload.out_layout, "C") == lanes and lanes % native == 0
    parts = workload.is_depthwise and blocked and not workload.padded_lanes and not processor.memory_operands
    return [lanes, native] if parts and lanes > native else [lanes]


def _knobs_of_tile(
    workload: ConvolutionWorkload, processor: Processor, tile: TiledLoops
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
        cost *= shared_line_penalty(workload, processor, knobs)
        cost += traffic_cycles(workload, processor, knobs)
        if tile.matrix_rows and not workload.paired_words:
            cost += CONFIGURATION_CYCLES * chunk_count(workload, knobs, pixels, channel_vectors)
        cost += processor.threads * processor.launch_cycles
        if processor.prefetch and may_prefetch(workload, knobs):
            knobs = replace(knobs, prefetch=processor.prefetch_again)
            yield cost * UNUSUAL_PREFETCH_PENALTY, replace(knobs, prefetch=not knobs.prefetch)
        yield cost, knobs
        if order == "channels" and chunk_rows == 1 and tile.cycles < MOST_SERIAL * processor.parallel_cycles:
            alone = replace(knobs, parallel=False)
            yield processor.threads * (tile.cycles + traffic_cycles(workload, processor, alone)), alone


def vector_axes(workload: ConvolutionWorkload, processor: Processor) -> tuple[int, int, int]:
    """The lanes of a vector, the whole vectors along the output channels, and along the pixels of a row.

    A tile may be as long as the whole vectors of its axis, but not longer: where a remainder is left, the
    last tile overlaps the one before. Pixels are single unless vectors lie along them.
    """
    native = processor.lanes(DTYPE_BYTES[workload.out_dtype])
    row = pixel_run(workload)
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


def _tiles_across(workload: ConvolutionWorkload, lanes: int, tile_pixels: int) -> int:
    """Tiles along a run of pixels; the last one may overlap the one before."""
    vector = lanes if lanes_are_pixels(workload) else 1
    return math.ceil(pixel_run(workload) / (tile_pixels * vector))


def _tiles_down(workload: ConvolutionWorkload, lanes: int, channel_vectors: int, tile_channels: int) -> int:
    """Tiles along the output channels; the last one may overlap the one before."""
    whole = lanes_are_pixels(workload) or block_of(workload.out_layout, "C") > 1
    if whole or block_of(workload.kernel_layout, "O") > 1:
        groups = 1 if workload.is_depthwise or channel_vectors % workload.groups else workload.groups
        return groups * math.ceil(channel_vectors // groups / tile_channels)
    channels = tiled_channels(workload)
    return workload.out_channels // channels * math.ceil(channels / (lanes * tile_channels))


def _register_tiles(
    workload: ConvolutionWorkload, processor: Processor, lanes: int, channel_vectors: int, pixels: int
) -> list[RegisterTile]:
    """Those whose accumulators and operands fit the register file together."""
    group_vectors = 1 if workload.is_depthwise else max(1, channel_vectors // workload.groups)
    tiles = []
    widest = WIDEST_ROW if pixels == 1 and not processor.memory_operands else 4
    for tile_channels, tile_pixels in itertools.product(range(1, widest + 1), range(1, 29)):
        if tile_channels > group_vectors or tile_pixels > pixels:
            continue
        tile = RegisterTile(workload, processor, lanes, tile_pixels, tile_channels)
        accumulators, streams = tile.accumulators, tile.streams
        in_flight = processor.registers_in_flight
        # One vector of channels lets the compiler broadcast from memory inside the multiply-add.
        operands = streams + 1 if streams > 1 else 3
        if lanes_are_pixels(workload):
            operands = streams + tile_pixels
        elif workload.is_depthwise and not processor.memory_operands:
            operands = streams + accumulators
        elif multiplies_long(workload, processor):
            # For an in-order core the compiler issues all products before the additions.
            waiting = LONG_LIVE_IN_ORDER + accumulators if in_flight else LONG_LIVE
            operands, in_flight = LONG_WEIGHTS * streams + waiting, 0
        if accumulators + operands + in_flight <= processor.vector_registers:
            tiles.append(tile)
    return tiles or [RegisterTile(workload, processor, lanes, 1, 1)]


def _steps(tile: RegisterTile) -> int:
    """Channels of the data, or words, to load as one vector, whose lanes multiply-adds read; else 1."""
    workload, processor = tile.workload, tile.processor
    if processor.memory_operands or multiplies_long(workload, processor):
        return 1
    if workload.word_axis and not processor.registers_in_flight:
        # Out-of-order cores issue a load beside every dot product.
        return 1
    return vector_steps(workload, tile.pixels) if tile.holds_data else 1


def _orders(workload: ConvolutionWorkload, loops: TiledLoops) -> list[tuple[Order, int, PadAt]]:
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
        if has_byte_pixels(workload):
            # The channels of a cache line are not for several threads.
            return [("pixels", rows, pad_at) for _, rows, pad_at in by_channels]
        return by_channels
    orders: list[tuple[Order, int, PadAt]] = [("channels", 1, "stage")]
    return orders + [("pixels", rows, "chunk" if copied else "stage") for rows in divisors(height)]
