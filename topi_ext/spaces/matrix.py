"""Register tiles of matrices that are worth trying for a convolution of words, each with its cycles."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from topi_ext.codegen import matrix_vectors
from topi_ext.codegen.matrix_registers import ROW_BYTES, ROWS, registers_held
from topi_ext.indexing import WORD_BYTES
from topi_ext.processor import Processor
from topi_ext.spaces.direct_costs import (
    IN_ORDER_LOAD_CYCLES,
    MOST_UNROLLED,
    around_tile,
    outgrow_l1,
    tile_steps,
)
from topi_ext.workload import BYTES, ConvolutionWorkload
from topi_ext.workload_facts import channel_run, fuses_rows, pair_steps, suits_matrices

LANES = ROW_BYTES // WORD_BYTES
"""Channels of a matrix of weights."""

_FEWEST_CYCLES = 10
"""Measured: what a product takes however few rows of data it has; with 16 rows it takes 16."""

_SHARED_UNIT = 1.5
"""Measured: two hyperthreads of a core share what multiplies, so that a product may take twice as long."""

_ROW_CYCLES, _FAR_ROW_CYCLES = 0.7, 2.0
"""Measured: a row of a matrix that is loaded from the level-1 cache, and from the level-2 cache."""

_TILE_CYCLES, _VECTOR_CYCLES = 20.0, 6.0
"""Modelled: around the products of a tile, and for storing each vector of its sums and finishing it."""

CONFIGURATION_CYCLES = 250.0
"""Measured: giving the registers their shapes, which each turn of a parallel loop does."""

_SPILL_CYCLES = 1.0
"""Modelled: what a step takes for each register too few of matrices in vectors."""

_SHORTEST = 7
"""Rows of a matrix below which others are not worth trying, as long as the pixels of a row allow it."""


@dataclass(frozen=True)
class MatrixTile:
    """``matrix_rows`` and ``steps`` as in knobs, ``rows`` by ``pixels`` by ``vectors`` of channels.

    ``cycles``: those of the tile, its whole reduction included.
    """

    rows: int
    pixels: int
    vectors: int
    matrix_rows: int
    steps: int
    cycles: float


def matrix_tiles(
    workload: ConvolutionWorkload, processor: Processor, pixels: int, vectors: int
) -> Iterator[MatrixTile]:
    """The tiles of a workload whose rows have ``pixels`` and whose pixels have ``vectors`` of channels."""
    if not suits_matrices(workload) or not processor.matrix_registers:
        return
    reduced = workload.in_channels // workload.word
    words = next(words for words in range(ROWS, 0, -1) if reduced % words == 0)
    longest = min(ROWS, pixels)
    lengths = [length for length in range(_SHORTEST, longest) if pixels % length == 0]
    height = 1 if fuses_rows(workload) or "H" not in workload.out_layout else int(workload.out_height)
    counts = range(1, processor.matrix_registers)
    for length, along, rows, channels in itertools.product([*lengths, longest], counts, counts, counts):
        data = along * rows
        fits = along * length <= pixels and rows <= height and channels <= vectors
        # Several rows are for those that a tile takes whole.
        if not fits or (rows > 1 and along * length < pixels):
            continue
        if registers_held(data, channels) <= processor.matrix_registers:
            cycles = _cycles(workload, processor, (data, channels, length, words))
            yield MatrixTile(rows, along * length, channels, length, words, cycles)


def vector_tiles(
    workload: ConvolutionWorkload, processor: Processor, lanes: int, pixels: int, vectors: int
) -> Iterator[MatrixTile]:
    """As :func:`matrix_tiles`, of matrices in vector registers, with vectors of ``lanes`` channels."""
    rows, held = matrix_vectors.ROWS, processor.vector_registers
    lengths = range(rows, min(pixels, held) + 1, rows)
    widths = range(1, min(vectors, held) + 1)
    for length, width, steps in itertools.product(lengths, widths, pair_steps(workload)):
        tile = _VectorTile(workload, length, width * lanes, steps)
        if tile.sums + tile.operands + processor.registers_in_flight <= held:
            yield MatrixTile(1, length, width, rows, steps, tile.cycles(processor))


@dataclass(frozen=True)
class _VectorTile:
    """A tile of pixels by channels, which a step takes so many words of."""

    workload: ConvolutionWorkload
    pixels: int
    channels: int
    words: int

    @property
    def sums(self) -> int:
        """Registers of sums."""
        return self.pixels * self.channels // matrix_vectors.SUMS

    @property
    def matrices(self) -> int:
        """Of each two pixels, in one step."""
        return self.words // matrix_vectors.WORDS

    @property
    def operands(self) -> int:
        """Registers of data and of weights."""
        return self.pixels // matrix_vectors.ROWS * self.matrices + 1

    @property
    def _shared(self) -> int:
        """Registers of data that the compiler keeps for the next taps of a row, which it unrolls."""
        taps, stride = self.workload.kernel[1], self.workload.strides[1]
        if not stride < taps <= MOST_UNROLLED:
            return 0
        return self.pixels // matrix_vectors.ROWS if self.is_side_by_side else self.pixels + taps - 1

    @property
    def is_side_by_side(self) -> bool:
        """Are the two rows of a matrix one run in memory?"""
        workload = self.workload
        return channel_run(workload) * workload.strides[1] == matrix_vectors.WORDS * workload.word

    def cycles(self, processor: Processor) -> float:
        """Those of the whole reduction and of what is around it."""
        products = self.sums * self.matrices
        rows, columns = self.pixels // matrix_vectors.ROWS, self.channels // matrix_vectors.COLUMNS
        moved = 0 if self.is_side_by_side else rows * self.matrices
        # Rows of half a register are loaded one by one.
        single = self.matrices == 1 and not self.is_side_by_side
        loads = (rows * (2 if single else 1) + columns) * self.matrices
        latency = processor.fma_latency if self.workload.dtype in BYTES else processor.pair_latency
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


def _cycles(workload: ConvolutionWorkload, processor: Processor, tile: tuple[int, int, int, int]) -> float:
    """Of a tile of data by weights, with so many rows and words of data in each matrix."""
    data, weights, rows, words = tile
    taps = workload.kernel[0] * workload.kernel[1]
    reduced = workload.in_channels * taps
    is_near = weights * LANES * reduced <= processor.l1_bytes // 2
    loads = data * rows * _ROW_CYCLES + weights * words * (_ROW_CYCLES if is_near else _FAR_ROW_CYCLES)
    products = data * weights * max(rows, _FEWEST_CYCLES) * _SHARED_UNIT
    steps = math.ceil(reduced / (words * workload.word))
    return steps * max(products, loads) + _TILE_CYCLES + _VECTOR_CYCLES * data * rows * weights


__all__ = ["CONFIGURATION_CYCLES", "LANES", "MatrixTile", "matrix_tiles", "vector_tiles"]
