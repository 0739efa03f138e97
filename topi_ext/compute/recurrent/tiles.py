"""How the matrix of a recurrent layer is stored, and what of its product a core takes at once."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from tvm import te, tirx

from topi_ext.machine.processor import Processor

LANES = 16
"""Longest vector of a state. Cores with shorter registers take several for one."""

ROWS = 6
"""Most sequences of which a step is taken at once."""


def lanes_of(hidden: int) -> int:
    """Elements in a vector of a state of ``hidden`` elements: a power of two, as registers have."""
    return min(LANES, 1 << (hidden.bit_length() - 1))


def parts_of(hidden: int) -> int:
    """Vectors that a state is taken in; where they do not divide it the last begins in the one before."""
    return ceil(hidden / lanes_of(hidden))


def packed(weight: np.ndarray) -> np.ndarray:
    """A weight [D, H, gates * H] in vectors of columns, parts of all gates: [D, parts, H, gates, lanes]."""
    directions, hidden, columns = weight.shape
    lanes = lanes_of(hidden)
    starts = np.minimum(np.arange(parts_of(hidden)) * lanes, hidden - lanes)
    places = starts[:, None] + np.arange(lanes)
    gates = weight.reshape(directions, hidden, columns // hidden, hidden)
    return np.ascontiguousarray(gates[..., places].transpose(0, 3, 1, 2, 4))


def pack(weight: te.Tensor) -> te.Tensor:
    """:func:`packed` of a weight that is computed when the layer runs."""
    directions, hidden, columns = (int(extent) for extent in weight.shape)
    lanes = lanes_of(hidden)

    def element(
        direction: tirx.Var, part: tirx.Var, depth: tirx.Var, gate: tirx.Var, lane: tirx.Var
    ) -> object:
        start = tirx.min(part * lanes, hidden - lanes)
        return weight[direction, depth, gate * hidden + start + lane]

    shape = (directions, parts_of(hidden), hidden, columns // hidden, lanes)
    return te.compute(shape, element, name="packed")


@dataclass(frozen=True)
class Tile:
    """Sums that a core keeps in its registers, of ``rows`` sequences.

    A vector of a state takes ``registers`` of the core's. Of several sequences there is room for ``gates``;
    of one so many vectors are taken at once that there are up to ``sums``: with more of them no multiply-add
    would wait for the one before.
    """

    rows: int
    registers: int
    gates: int
    sums: int

    def span(self, gates: int, parts: int) -> int:
        """With how many of a state's ``parts`` that many gates are taken at once."""
        if self.rows > 1:
            return 1
        return max(1, min(parts, self.sums // (gates * self.registers)))

    def portion(self, gates: int) -> int:
        """For how many ``gates`` the sums of several sequences are kept at once; a divisor."""
        return next(size for size in range(min(self.gates, gates), 0, -1) if gates % size == 0)


def most_rows(processor: Processor, hidden: int) -> int:
    """Sequences by one vector of columns that fit the registers, beside a vector of weights and a state."""
    registers = _registers(processor, hidden)
    return max(1, min(ROWS, (_free(processor) - registers) // registers))


def tile_of(processor: Processor, rows: int, hidden: int) -> Tile:
    """The sums of ``rows`` sequences of ``hidden`` elements that fit the registers of the ``processor``."""
    registers = _registers(processor, hidden)
    gates = max(1, _free(processor) // ((rows + 1) * registers))
    return Tile(rows, registers, gates, ceil(processor.vectors_per_cycle * processor.fma_latency))


def _free(processor: Processor) -> int:
    """Registers without those of a state and of what is loaded early."""
    return processor.vector_registers - processor.registers_in_flight - 1


def _registers(processor: Processor, hidden: int) -> int:
    return ceil(lanes_of(hidden) / processor.lanes(4))
