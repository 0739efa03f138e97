"""Vector registers that hold matrices of words and of their sums: ARM's extensions FEAT_I8MM and FEAT_BF16.

One instruction multiplies two rows of eight bytes of data by two columns of eight of weights, and adds to two
rows of two int32, which fill a register; of bfloat16, two rows of four, and it adds to float32. That is twice
what a dot product of words does. Source: Arm Architecture Reference Manual for A-profile, USMMLA and BFMMLA
(vector).
"""

from collections.abc import Callable
from typing import Any

from tvm import tirx

from topi_ext.codegen.bfloat16 import BITS
from topi_ext.codegen.llvm_functions import neon_matrix_sums

ROWS, COLUMNS, WORDS = 2, 2, 2
"""Extents of a matrix: pixels, channels of the result, and words of each of them."""

ROW_BYTES = 8
"""Bytes of one of the two rows of a matrix operand."""

SUMS = ROWS * COLUMNS
"""In one register."""

_BYTE_SUMS = "llvm.aarch64.neon.usmmla.v4i32.v16i8"
"""Adds products of data of uint8 by weights of int8."""

Load = Callable[[int, int, int], Any]
"""Elements in a row from memory: from a word of a pixel on, or of a channel, so many."""


class MatrixVectors:
    """The sums of a tile of ``pixels`` by ``channels``, which products ``words`` long are added to.

    Data are of ``dtype``: uint8, or the bits of bfloat16.
    """

    def __init__(self, pixels: int, channels: int, words: int, dtype: str) -> None:
        self.pixels, self.channels, self.words = pixels, channels, words
        self._row = ROW_BYTES // (2 if dtype == BITS else 1)
        self._sum_dtype = "float32" if dtype == BITS else "int32"
        extent = pixels * channels
        self._sums = tirx.decl_buffer((extent,), self._sum_dtype, "sums", scope="local")

    def allocate(self) -> Any:
        """The statement from which on there are registers for the sums."""
        return tirx.AllocBuffer(self._sums, {})

    def zero(self) -> list[Any]:
        """Statements that set all sums to zero."""
        zeros = tirx.Broadcast(tirx.const(0, self._sum_dtype), SUMS)
        return [
            tirx.BufferStore(self._sums, zeros, [_vector(place)])
            for place in range(0, self.pixels * self.channels, SUMS)
        ]

    def multiply(self, data: Load, weight: Load, *, side_by_side: bool) -> list[Any]:
        """Statements that add the products of all matrices of a step.

        ``side_by_side``: the elements of a row of the data follow those of the row before.
        """
        rows = {
            (pixel, word): matrix
            for pixel in range(0, self.pixels, ROWS)
            for word, matrix in self._rows(data, pixel, side_by_side=side_by_side)
        }
        found = []
        for word in range(0, self.words, WORDS):
            for channel in range(0, self.channels, COLUMNS):
                columns = weight(channel, word, COLUMNS * self._row)
                for pixel in range(0, self.pixels, ROWS):
                    at = [_vector(self._place(pixel, channel))]
                    total = self._added(tirx.BufferLoad(self._sums, at), rows[pixel, word], columns)
                    found.append(tirx.BufferStore(self._sums, total, at))
        return found

    def _added(self, sums: Any, rows: Any, columns: Any) -> Any:
        if self._sum_dtype == "float32":
            return neon_matrix_sums(sums, rows, columns)
        return tirx.call_llvm_pure_intrin(sums.ty.dtype, _BYTE_SUMS, sums, rows, columns)

    def _rows(self, data: Load, pixel: int, *, side_by_side: bool) -> list[tuple[int, Any]]:
        """The matrices of two pixels, each with the word that it begins with."""
        words, row = range(0, self.words, WORDS), self._row
        if side_by_side and self.words == WORDS:
            return [(0, data(pixel, 0, ROWS * row))]
        if self.words == 2 * WORDS:
            both = [data(place, 0, 2 * row) for place in (pixel, pixel + 1)]
            orders = ([*range(at, at + row), *range(at + 2 * row, at + 3 * row)] for at in (0, row))
            return list(zip(words, (tirx.Shuffle(both, order) for order in orders), strict=True))
        halves = {word: [data(place, word, row) for place in (pixel, pixel + 1)] for word in words}
        return [(word, tirx.Shuffle(both, list(range(ROWS * row)))) for word, both in halves.items()]

    def store(self, store: Callable[[int, int, Any], Any]) -> list[Any]:
        """Statements that ``store`` makes of a pixel, a channel, and the sums of four channels from there."""
        found = []
        for pixel in range(0, self.pixels, ROWS):
            for channel in range(0, self.channels, SUMS):
                both = [
                    tirx.BufferLoad(self._sums, [_vector(self._place(pixel, at))])
                    for at in (channel, channel + COLUMNS)
                ]
                for row, order in enumerate(([0, 1, 4, 5], [2, 3, 6, 7])):
                    found.append(store(pixel + row, channel, tirx.Shuffle(both, order)))
        return found

    def _place(self, pixel: int, channel: int) -> int:
        """The place of the first of the sums of two pixels and two channels."""
        return pixel * self.channels + channel * ROWS


def _vector(place: int) -> Any:
    return tirx.Ramp(tirx.IntImm("int32", place), 1, SUMS)
