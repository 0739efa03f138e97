"""Register tiles of the direct convolution: what its inner loop sums, and the cycles that this takes."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import block_of, physical_axes
from topi_ext.machine.processor import LINE_BYTES, Processor
from topi_ext.spaces.arithmetic_costs import multiplies_long, step_costs
from topi_ext.workloads.convolution import BYTES, COLUMNS, PLANES, ROWS, ConvolutionWorkload
from topi_ext.workloads.facts import lanes_are_pixels, pixel_run, share_of_taps_inside

STREAM_PENALTY = 0.06
"""Added to the factor on a step for each vector of channels more or less than two. Measured: with one, every
multiply-add reads memory, and with more, the streams of weights compete for cache sets."""

LONG_STREAMS = 4
"""Modelled: the best number of vectors of channels where bytes are multiplied to int16, since each pixel is
broadcast twice.
"""

IN_ORDER_LOAD_CYCLES = 0.5
"""Modelled: cycles of each load in such a loop on an in-order core, in addition to the products."""

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


@dataclass(frozen=True)
class RegisterTile:
    """So many pixels by so many vectors of channels of a result, all summed at once.

    ``lanes``, ``pixels`` and ``channels`` are as in :class:`topi_ext.knobs.ConvolutionKnobs`. A step of its
    loop multiplies an element, or a word, of each pixel by every vector of weights.
    """

    workload: ConvolutionWorkload
    processor: Processor
    lanes: int
    pixels: int
    channels: int

    @cached_property
    def vector_bytes(self) -> int:
        """Bytes of a vector of sums."""
        return self.lanes * DTYPE_BYTES[self.workload.out_dtype]

    @cached_property
    def streams(self) -> int:
        """Registers of weights that a step reads."""
        return self.channels * self.processor.registers(self.lanes, self.workload.out_dtype)

    @property
    def accumulators(self) -> int:
        """Registers of sums."""
        return self.pixels * self.streams

    @property
    def holds_data(self) -> bool:
        """Do the registers also hold a vector of data for each pixel?"""
        needed = self.accumulators + self.streams + self.pixels
        return needed + self.processor.registers_in_flight <= self.processor.vector_registers

    def cycles(self, steps_at_once: int) -> float:
        """Cycles of the whole reduction, with the work around the loop.

        ``steps_at_once`` are the channels, or words, that one load brings in.
        """
        workload, processor = self.workload, self.processor
        steps = tile_steps(workload, self.pixels)
        costs = step_costs(workload, processor, self.accumulators, self.vector_bytes)
        loads = self._loads(steps_at_once)
        # Tiles overlap in the reorder window of an out-of-order core.
        tiles_at_once = max(1.0, REORDERED / (2 * max(1.0, self.accumulators * steps)))
        waiting = costs.latency / (1 if processor.registers_in_flight else tiles_at_once)
        cycles = max(costs.cycles, loads / processor.loads_per_cycle, waiting)
        if multiplies_long(workload, processor) and processor.registers_in_flight:
            cycles += IN_ORDER_LOAD_CYCLES * loads
        if lanes_are_pixels(workload):
            # Where multiply-adds take twice as long, they take longer than what else such a loop waits for.
            hidden = processor.passes(self.vector_bytes) if workload.strides[1] == 1 else 1
            cycles *= max(1.0, PIXEL_LANE_PENALTY / hidden)
        elif not workload.is_depthwise:
            cycles = self._sharing_data(cycles, costs.registers, steps_at_once)
        elif workload.kernel[1] > 1:
            # The compiler keeps data that several taps share, beside the accumulators.
            cycles += max(0, 2 * self.accumulators + self.streams - processor.vector_registers)
        total = steps * cycles + around_tile(self.accumulators)
        return total * (BYTE_PIXELS_PENALTY if has_byte_pixels(workload) else 1.0)

    def _loads(self, steps_at_once: int) -> float:
        """Loads of a step."""
        workload, passes = self.workload, self.processor.passes(self.vector_bytes)
        registers = self.streams // self.channels
        if lanes_are_pixels(workload):
            # Most vectors of a row start inside a cache line and are read as two.
            vector, stride = (passes + 1) * registers, workload.strides[1]
            if stride > 1:
                # As many vectors as hold all pixels are shuffled, or pixels loaded one by one.
                vector = min(self.lanes, (vector + SHUFFLES) * stride)
            return self.pixels * vector + self.channels
        if workload.is_depthwise:
            return passes * (self.pixels + 1) * self.streams
        if multiplies_long(workload, self.processor):
            return 2 * (self.pixels + self.streams)
        return self.pixels / steps_at_once + passes * self.streams

    def _sharing_data(self, cycles: float, live: int, steps_at_once: int) -> float:
        """The cycles of a step that multiplies every element of the data by all vectors of weights.

        ``cycles`` are those by throughput and latency, ``live`` the registers that products need.
        """
        workload, processor = self.workload, self.processor
        best = LONG_STREAMS if multiplies_long(workload, processor) else 2
        cycles *= 1.0 + STREAM_PENALTY * abs(self.streams - best)
        again = pixel_run(workload) > 1 and processor.memory_operands
        if again and outgrow_l1(workload, processor, self.lanes * self.channels):
            cycles = max(cycles, L2_CYCLES_PER_VECTOR * self.streams)
        cycles += CONFLICT_CYCLES * conflicting_lines(workload, processor, self.pixels) / steps_at_once
        live += self.accumulators + self.streams + _shared_pixels(workload, self.pixels)
        cycles += SPILL_CYCLES * max(0, live - processor.vector_registers)
        if not processor.memory_operands and not workload.word_axis:
            at_once = max(steps_at_once, block_of(workload.data_layout, "C"))
            cycles += LOOP_CYCLES / at_once
            if at_once > 1 and not self.holds_data:
                cycles *= SINGLE_LOADS_PENALTY
        return cycles


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


def has_byte_pixels(workload: ConvolutionWorkload) -> bool:
    """Is it a depthwise convolution of bytes in NHWC?"""
    return workload.is_depthwise and workload.dtype in BYTES and workload.data_layout == "NHWC"
