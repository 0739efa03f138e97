"""The estimated cost of the direct convolution's knobs, in cycles.

The estimate adds cycles of the inner loop (bounded by multiply-accumulate throughput, by loads and by
the latency of the accumulators), the share of work that overlapping tail tiles repeat, the balance
between threads, and the traffic to the level-2 cache. :mod:`topi_ext.spaces.direct` puts these together.
"""

import math
from collections import Counter

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import block_of, physical_axes
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.processor import LINE_BYTES, Processor
from topi_ext.spaces.arithmetic_costs import multiplies_long, step_costs
from topi_ext.workload import BYTES, COLUMNS, PLANES, ROWS, ConvolutionWorkload
from topi_ext.workload_facts import fuses_rows, lanes_are_pixels, pixel_run, share_of_taps_inside

SHARED_LINE_PENALTY = 4.0
"""The factor for cache lines that two threads write. Measured: 24 NHWC channels split between two threads
take 3 to 5 times as long."""

STREAM_PENALTY = 0.06
"""Added to the factor on a step for each vector of channels more or less than two. Measured: with one, every
multiply-add reads memory, and with more, the streams of weights compete for cache sets."""

LONG_STREAMS = 4
"""Modelled: the best number of vectors of channels where bytes are multiplied to int16, since each pixel is
broadcast twice.
"""

IN_ORDER_LOAD_CYCLES = 0.5
"""Modelled: cycles of each load in such a loop on an in-order core, in addition to the products."""

CACHED_BYTES = 128 << 10
"""Weights up to this size stay in the level-2 cache from one run of a network to the next."""

CACHED_BYTES_PER_CYCLE = 32.0
"""The rate at which such weights are read."""

L2_CYCLES_PER_VECTOR = 2.4
"""Cycles to load one vector from the level-2 cache. Measured on 512 channels of 3 taps in tiles of 3 pixels
and 4 vectors of channels: 2.2; on a Zen 4, of 4 taps in tiles of 2 pixels and 2 vectors: 3."""

SET_LINES_PER_WAY = 1.25
"""Lines of one set that the pixels of a tile may lie in, for each way of the level-1 cache. Measured on a
Zen 4, which has eight ways, with pixels of 2 and 4 KiB: ten lines cost nothing."""

CONFLICT_CYCLES = 2.5
"""Measured on the same: cycles of each further line, which every step reads from level 2 again."""

REORDERED = 256
"""The least reorder window of an out-of-order core, in instructions; a multiply-add counts as two."""

SHUFFLES = 1
"""Shuffles for each vector of neighbouring pixels, to keep the ones that a stride selects."""

MOST_UNROLLED = 4
"""The longest kernel row that the compiler unrolls, in taps."""

SPILL_CYCLES = 0.5
"""Measured on first layers: cycles that each spilled register adds to a step."""

AGAIN_BYTES_PER_CYCLE = 16.0
"""The rate per thread from the last-level cache, for weights that are read repeatedly in the same order."""

KEPT_SHARE = 0.8
"""The share of the level-2 cache that weights may fill and still stay from one tile of pixels to the next."""

LOOP_CYCLES = 0.5
"""Modelled: cycles of loop control and addresses, where multiply-adds read lanes of registers."""

SINGLE_LOADS_PENALTY = 1.04
"""Modelled: the factor on such loops if the data does not fit in registers as vectors, and is loaded by
element."""

BYTE_PIXELS_PENALTY = 2.0
"""The factor for depthwise convolutions of bytes with channels last, whose vectors are quarters of cache
lines. Measured 1.1 to 1.7; as the estimates of all depthwise convolutions are low, this value chooses
the faster networks."""

PIXEL_LANE_PENALTY = 2.0
"""Measured: a convolution with vectors along rows takes about twice the cycles that its tile needs."""


def tile_cycles(
    workload: ConvolutionWorkload,
    processor: Processor,
    lanes: int,
    tile_pixels: int,
    tile_channels: int,
    steps_at_once: int,
) -> float:
    """Cycles of one register tile over its whole reduction, with the work around the loop.

    ``lanes`` to ``tile_channels`` are as in the knobs; ``steps_at_once`` are the channels, or words, that one
    load brings in.
    """
    size = lanes * DTYPE_BYTES[workload.out_dtype]
    registers, passes = math.ceil(size / processor.vector_bytes), processor.passes(size)
    accumulators = tile_pixels * tile_channels * registers
    is_long = multiplies_long(workload, processor)
    loads: float
    if lanes_are_pixels(workload):
        # Most vectors of a row start inside a cache line and are read as two.
        vector, stride = (passes + 1) * registers, workload.strides[1]
        if stride > 1:
            # As many vectors as hold all pixels are shuffled, or pixels loaded one by one.
            vector = min(lanes, (vector + SHUFFLES) * stride)
        loads = tile_pixels * vector + tile_channels
    elif workload.is_depthwise:
        loads = passes * (tile_pixels + 1) * tile_channels * registers
    elif is_long:
        loads = 2 * (tile_pixels + tile_channels * registers)
    else:
        loads = tile_pixels / steps_at_once + passes * tile_channels * registers
    steps = tile_steps(workload, tile_pixels)
    costs = step_costs(workload, processor, accumulators, size)
    waiting = costs.latency / (1 if processor.registers_in_flight else _tiles_at_once(accumulators * steps))
    cycles = max(costs.cycles, loads / processor.loads_per_cycle, waiting)
    if is_long and processor.registers_in_flight:
        cycles += IN_ORDER_LOAD_CYCLES * loads
    if lanes_are_pixels(workload):
        # Where multiply-adds take twice as long, they take longer than what else such a loop waits for.
        hidden = passes if workload.strides[1] == 1 else 1
        cycles *= max(1.0, PIXEL_LANE_PENALTY / hidden)
    elif workload.is_depthwise and workload.kernel[1] > 1:
        # The compiler keeps data that several taps share, beside the accumulators.
        cycles += max(0, 2 * accumulators + tile_channels * registers - processor.vector_registers)
    elif not workload.is_depthwise:
        best = LONG_STREAMS if is_long else 2
        cycles *= 1.0 + STREAM_PENALTY * abs(tile_channels * registers - best)
        again = pixel_run(workload) > 1 and processor.memory_operands
        if again and outgrow_l1(workload, processor, lanes * tile_channels):
            cycles = max(cycles, L2_CYCLES_PER_VECTOR * tile_channels * registers)
        cycles += CONFLICT_CYCLES * conflicting_lines(workload, processor, tile_pixels) / steps_at_once
        live = accumulators + tile_channels * registers + costs.registers
        live += _shared_pixels(workload, tile_pixels)
        cycles += SPILL_CYCLES * max(0, live - processor.vector_registers)
        if not processor.memory_operands and not workload.word_axis:
            at_once = max(steps_at_once, block_of(workload.data_layout, "C"))
            cycles += LOOP_CYCLES / at_once
            if at_once > 1 and not holds_data(workload, processor, lanes, tile_pixels, tile_channels):
                cycles *= SINGLE_LOADS_PENALTY
    return (steps * cycles + around_tile(accumulators)) * (
        BYTE_PIXELS_PENALTY if has_byte_pixels(workload) else 1.0
    )


def _tiles_at_once(multiply_adds: float) -> float:
    """Tiles of ``multiply_adds`` each that overlap in the reorder window of an out-of-order core."""
    return max(1.0, REORDERED / (2 * max(1.0, multiply_adds)))


def tile_steps(workload: ConvolutionWorkload, tile_pixels: int) -> float:
    """Steps of a tile: the elements, or words, that each result sums, averaged over skipped padding."""
    taps = workload.taps * share_of_taps_inside(workload, ROWS)
    if workload.depth:
        taps *= share_of_taps_inside(workload, PLANES)
    if not lanes_are_pixels(workload):
        taps *= share_of_taps_inside(workload, COLUMNS, tile_pixels)
    return workload.group_in_channels * taps / workload.word


def around_tile(accumulators: int) -> float:
    """Cycles to store a tile, load the operands of the epilogue, and refill the pipeline."""
    return 12 + 2.0 * accumulators


def holds_data(
    workload: ConvolutionWorkload, processor: Processor, lanes: int, tile_pixels: int, tile_channels: int
) -> bool:
    """Do the registers also hold a vector of data for each pixel of the tile?"""
    registers = processor.registers(lanes, workload.out_dtype)
    streams = tile_channels * registers
    needed = tile_pixels * streams + streams + tile_pixels
    return needed + processor.registers_in_flight <= processor.vector_registers


def outgrow_l1(workload: ConvolutionWorkload, processor: Processor, channels: int) -> bool:
    """Do the weights of a tile of ``channels`` exceed the level-1 cache, so that each tile reads them from
    level 2?
    """
    taps = workload.group_in_channels * workload.taps
    return taps * channels * DTYPE_BYTES[workload.weight_dtype] > processor.l1_bytes // 2


def conflicting_lines(workload: ConvolutionWorkload, processor: Processor, tile_pixels: int) -> int:
    """Cache lines of a tile's pixels that evict each other from the level-1 cache between two channels.

    Pixels whose channels lie together are as far apart as those are long; where that is a multiple of
    a large power of two, all lie in few sets of the cache.
    """
    innermost = physical_axes(workload.data_layout)[-1]
    if innermost[0] != "C":
        return 0
    channels = innermost[1] or workload.in_channels
    pixel_bytes = channels * DTYPE_BYTES[workload.dtype] * workload.strides[1]
    lines = {pixel * pixel_bytes // LINE_BYTES for pixel in range(tile_pixels)}
    in_set = Counter(line % (processor.way_bytes // LINE_BYTES) for line in lines)
    kept = int(SET_LINES_PER_WAY * processor.l1_ways)
    return sum(max(0, count - kept) for count in in_set.values())


def has_byte_pixels(workload: ConvolutionWorkload) -> bool:
    """Is it a depthwise convolution of bytes in NHWC?"""
    return workload.is_depthwise and workload.dtype in BYTES and workload.data_layout == "NHWC"


def _shared_pixels(workload: ConvolutionWorkload, tile_pixels: int) -> int:
    """Elements, or words, of the data that several taps use, which the compiler keeps broadcast in
    registers.
    """
    word = workload.word if workload.word_axis == "W" else 1
    taps, stride, step = workload.kernel[1] // word, workload.strides[1], workload.dilation[1] * word
    if physical_axes(workload.data_layout)[-1] != ("W", 0) or taps > MOST_UNROLLED:
        return 0
    met = Counter(pixel * stride + tap * step for pixel in range(tile_pixels) for tap in range(taps))
    return sum(times > 1 for times in met.values())


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
