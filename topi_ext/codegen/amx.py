"""Registers that hold matrices of words, and their instructions: Intel's Advanced Matrix Extensions (AMX).

One instruction multiplies 16 rows of 64 bytes of data by 64 rows of 16 columns of weights, which are stored
in words of four rows, and adds to 16 rows of 16 int32; of bfloat16, 16 rows of 32 by 32 rows, in words of
two, and it adds to float32. Eight registers hold matrices of up to 16 rows of 64 bytes; a configuration says
for each of them how many of both it has. Source: Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 1, chapter 18.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tirx

from topi_ext.codegen.bfloat16 import BITS
from topi_ext.indexing import WORD_BYTES

REGISTERS, ROWS, ROW_BYTES = 8, 16, 64

LANES = ROW_BYTES // WORD_BYTES
"""Columns of the weights, and of the sums."""

_PALETTE, _COLUMNS_AT, _ROWS_AT = 1, 16, 48
"""The configuration's number of the only kind of registers, and where those of bytes and of rows begin."""

_PRODUCTS = {"uint8": "tdpbusd", "int8": "tdpbssd", BITS: "tdpbf16ps"}
"""What multiplies such data by int8, or the bits of bfloat16 by such."""


def registers_held(data: int, weights: int) -> int:
    """What a tile of ``data`` by ``weights`` matrices needs: sums, the fewer, one for the others in turns."""
    return data * weights + min(data, weights) + 1


class Matrices:
    """The registers of a tile of ``data`` matrices of ``rows`` pixels by ``weights`` matrices of 16 channels.

    Both are ``words`` words long. Registers are the sums, then the data, then the weights in turns.
    """

    def __init__(self, data: int, weights: int, rows: int, words: int) -> None:
        self.data, self.weights, self.rows, self.words = data, weights, rows, words
        sums, kept = data * weights, min(data, weights)
        turns = min(max(data, weights), REGISTERS - sums - kept)
        self._sums = sums
        self._held = (kept, turns) if data <= weights else (turns, kept)

    def configure(self, words: Any) -> list[Any]:
        """Statements that write the configuration to ``words``, a buffer of eight int64, and load it."""
        data, weights = self._held
        shapes = [(self.rows, ROW_BYTES)] * self._sums
        shapes += [(self.rows, self.words * WORD_BYTES)] * data + [(self.words, ROW_BYTES)] * weights
        found = np.zeros(64, "uint8")
        found[0] = _PALETTE
        for register, (rows, columns) in enumerate(shapes):
            found[_COLUMNS_AT + 2 * register] = columns
            found[_ROWS_AT + register] = rows
        stores = [
            tirx.BufferStore(words, tirx.const(int(word), "int64"), [place])
            for place, word in enumerate(found.view("int64"))
        ]
        return [*stores, _instruction("ldtilecfg", tirx.address_of(tirx.BufferLoad(words, [0])))]

    @staticmethod
    def release() -> Any:
        """The statement behind which the registers hold nothing that the system would have to keep."""
        return _instruction("tilerelease")

    def zero(self) -> list[Any]:
        """Statements that set all sums to zero."""
        return [_instruction("tilezero", _number(register)) for register in range(self._sums)]

    def multiply(
        self,
        data: Sequence[Any],
        data_stride: int,
        weights: Sequence[Any],
        weight_stride: int,
        dtype: str,
    ) -> list[Any]:
        """Statements that add the products of all matrices, given by the addresses of their first elements.

        Strides are those of rows, in bytes; ``dtype`` is that of the data.
        """
        found: list[Any] = []
        held: dict[int, Any] = {}

        def register(first: int, turns: int, place: int, address: Any, stride: int) -> int:
            number = first + place % turns
            if held.get(number) is not address:
                found.append(self._load(number, address, stride))
                held[number] = address
            return number

        first, second = self._held
        pairs = [(pixel, channel) for pixel in range(self.data) for channel in range(self.weights)]
        # The side of which all are held goes fastest.
        for pixel, channel in sorted(pairs, key=lambda pair: pair[0 if second == self.weights else 1]):
            left = register(self._sums, first, pixel, data[pixel], data_stride)
            right = register(self._sums + first, second, channel, weights[channel], weight_stride)
            found.append(self._product(dtype, (pixel * self.weights + channel, left, right)))
        return found

    def _load(self, register: int, address: Any, stride: int) -> Any:
        return _instruction("tileloadd64", _number(register), address, _long(stride))

    def _product(self, dtype: str, registers: tuple[int, int, int]) -> Any:
        return _instruction(_PRODUCTS[dtype], *map(_number, registers))

    def store(self, addresses: Sequence[Any], stride: int) -> list[Any]:
        """Statements that store the sums, those of one matrix of pixels after the other."""
        return [
            _instruction("tilestored64", _number(register), address, _long(stride))
            for register, address in enumerate(addresses)
        ]


def _instruction(name: str, *operands: Any) -> Any:
    return tirx.Evaluate(tirx.call_llvm_intrin("void", f"llvm.x86.{name}", *operands))


def _number(register: int) -> Any:
    return tirx.const(register, "int8")


def _long(number: int) -> Any:
    return tirx.const(number, "int64")
