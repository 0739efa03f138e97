"""Register tiles for matrix instructions (AMX, and ARM's FEAT_I8MM and FEAT_BF16), with estimated cycles."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from topi_ext.codegen import amx, neon_matrices
from topi_ext.machine.processor import Processor
from topi_ext.spaces.register_tile import (
    IN_ORDER_LOAD_CYCLES,
    MOST_UNROLLED,
    around_tile,
    outgrow_l1,
    tile_steps,
)
from topi_ext.workloads.convolution import BYTES, ConvolutionWorkload
from topi_ext.workloads.facts import channel_run, fuses_rows, pair_steps, suits_amx

_FEWEST_CYCLES = 10
"""Measured: cycles of an AMX product with few rows of data; with 16 rows it takes 16."""

_SHARED_UNIT = 1.5
"""Measured: the factor on products because the two hyperthreads of a core share one matrix unit."""

_ROW_CYCLES, _FAR_ROW_CYCLES = 0.7, 2.0
"""Measured: cycles to load one row of a tile register from the level-1 and from the level-2 cache."""

_TILE_CYCLES, _VECTOR_CYCLES = 20.0, 6.0
"""Modelled: cycles around the products of a register tile, and to store and finish each vector of sums."""

CONFIGURATION_CYCLES = 250.0
"""Measured: cycles to configure the tile registers, once per iteration of the parallel loop."""

_SPILL_CYCLES = 1.0
"""Modelled: cycles that each spilled register adds to a step of ARM's matrix instructions."""

_SHORTEST = 7
"""The fewest rows of an AMX operand worth trying, unless a row of the image has fewer pixels."""


@dataclass(frozen=True)
class MatrixTile:
    """A register tile of ``rows`` by ``pixels`` by ``vectors`` of channels.

    ``matrix_rows`` and ``steps`` are as in :class:`topi_ext.knobs.ConvolutionKnobs`; ``cycles`` are those of
    the tile over its whole reduction.
    """

    rows: int
    pixels: int
    vectors: int
    matrix_rows: int
    steps: int
    cycles: float


def amx_tiles(
    workload: ConvolutionWorkload, processor: Processor, pixels: int, vectors: int
) -> Iterator[MatrixTile]:
    """The register tiles for AMX worth trying; rows have ``pixels``, and pixels ``vectors`` of output
    channels.
    """
    if not suits_amx(workload) or not processor.amx_registers:
        return
    reduced = workload.in_channels // workload.word
    words = next(words for words in range(amx.ROWS, 0, -1) if reduced % words == 0)
    longest = min(amx.ROWS, pixels)
    lengths = [length for length in range(_SHORTEST, longest) if pixels % length == 0]
    height = 1 if fuses_rows(workload) or "H" not in workload.out_layout else int(workload.out_height)
    counts = range(1, processor.amx_registers)
    for length, along, rows, channels in itertools.product([*lengths, longest], counts, counts, counts):
        fits = along * length <= pixels and rows <= height and channels <= vectors
        # A tile has several rows only if it covers them whole.
        if not fits or (rows > 1 and along * length < pixels):
            continue
        tile = _AmxTileCost(workload, along * rows, channels, length, words)
        if tile.registers <= processor.amx_registers:
            yield MatrixTile(rows, along * length, channels, length, words, tile.cycles(processor))


@dataclass(frozen=True)
class _AmxTileCost:
    """The cost of a register tile of ``data`` by ``weights`` AMX operands.

    Each operand of data has ``rows`` pixels of ``words`` words.
    """

    workload: ConvolutionWorkload
    data: int
    weights: int
    rows: int
    words: int

    @property
    def registers(self) -> int:
        return amx.registers_held(self.data, self.weights)

    def cycles(self, processor: Processor) -> float:
        """Cycles of the whole reduction and of the work around it."""
        taps = self.workload.kernel[0] * self.workload.kernel[1]
        reduced = self.workload.in_channels * taps
        is_near = self.weights * amx.LANES * reduced <= processor.l1_bytes // 2
        weight_row = _ROW_CYCLES if is_near else _FAR_ROW_CYCLES
        loads = self.data * self.rows * _ROW_CYCLES + self.weights * self.words * weight_row
        products = self.data * self.weights * max(self.rows, _FEWEST_CYCLES) * _SHARED_UNIT
        steps = math.ceil(reduced / (self.words * self.workload.word))
        finished = _VECTOR_CYCLES * self.data * self.rows * self.weights
        return steps * max(products, loads) + _TILE_CYCLES + finished


def neon_tiles(
    workload: ConvolutionWorkload, processor: Processor, lanes: int, pixels: int, vectors: int
) -> Iterator[MatrixTile]:
    """As :func:`amx_tiles`, for ARM's matrix instructions; a vector has ``lanes`` channels."""
    rows, held = neon_matrices.ROWS, processor.vector_registers
    lengths = range(rows, min(pixels, held) + 1, rows)
    widths = range(1, min(vectors, held) + 1)
    for length, width, steps in itertools.product(lengths, widths, pair_steps(workload)):
        tile = _NeonTileCost(workload, length, width * lanes, steps)
        if tile.sums + tile.operands + processor.registers_in_flight <= held:
            yield MatrixTile(1, length, width, rows, steps, tile.cycles(processor))


@dataclass(frozen=True)
class _NeonTileCost:
    """The cost of a register tile of ``pixels`` by ``channels`` for ARM's matrix instructions.

    A step takes ``words`` words of each pixel.
    """

    workload: ConvolutionWorkload
    pixels: int
    channels: int
    words: int

    @property
    def sums(self) -> int:
        """Registers that hold sums."""
        return self.pixels * self.channels // neon_matrices.SUMS

    @property
    def matrices(self) -> int:
        """Matrix operands of each pair of pixels in one step."""
        return self.words // neon_matrices.WORDS

    @property
    def operands(self) -> int:
        """Registers that hold data and weights."""
        return self.pixels // neon_matrices.ROWS * self.matrices + 1

    @property
    def _shared(self) -> int:
        """Registers of data that the compiler keeps for the next taps, as it unrolls short kernel rows."""
        taps, stride = self.workload.kernel[1], self.workload.strides[1]
        if not stride < taps <= MOST_UNROLLED:
            return 0
        return self.pixels // neon_matrices.ROWS if self.is_side_by_side else self.pixels + taps - 1

    @property
    def is_side_by_side(self) -> bool:
        """Are the two rows of a matrix operand contiguous in memory?"""
        workload = self.workload
        return channel_run(workload) * workload.strides[1] == neon_matrices.WORDS * workload.word

    def cycles(self, processor: Processor) -> float:
        """Cycles of the whole reduction and of the work around it."""
        products = self.sums * self.matrices
        rows, columns = self.pixels // neon_matrices.ROWS, self.channels // neon_matrices.COLUMNS
        moved = 0 if self.is_side_by_side else rows * self.matrices
        # The two halves of a register are loaded one by one.
        single = self.matrices == 1 and not self.is_side_by_side
        loads = (rows * (2 if single else 1) + columns) * self.matrices
        latency = processor.fma_latency if self.workload.dtype in BYTES else processor.bfloat16_latency
        busy = max(products / processor.fma_per_cycle, (products + moved) / processor.operations_per_cycle)
        step = max(busy, loads / processor.loads_per_cycle, latency * self.matrices)
        if outgrow_l1(self.workload, processor, self.channels):
            weights = columns * self.matrices * processor.vector_bytes
            step = max(step, weights / processor.cache_bytes_per_cycle)
        live = self.sums + self.operands + self._shared
        step += _SPILL_CYCLES * max(0, live - processor.vector_registers)
        if processor.registers_in_flight:
            step += IN_ORDER_LOAD_CYCLES * loads
        return tile_steps(self.workload, self.pixels) / self.words * step + around_tile(self.sums)
