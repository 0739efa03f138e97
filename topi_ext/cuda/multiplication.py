"""What tensor cores multiply by ``mma.sync``, and which lane holds which element.

Source: PTX ISA, "Matrix Fragments for mma" of m16n8k8 (.tf32), m16n8k16 (.f16) and m16n8k32 (integers), and
for sm_75 of m16n8k8 (.f16) and m8n8k16 (integers).
A lane always owns words of 32 bits: the left operand of one instruction is 16 rows of 8 words, the right one
8 rows (its columns) of 8 words, the sums 16 rows of 8 words. Only how many elements a word has differs.
The smaller instructions of sm_75 take the same words, fewer of them: 8 or 16 rows of 4. So two or four of
them, one after the other, are one of sm_80 on the same registers.
"""

import re
from dataclasses import dataclass
from typing import Any

from topi_ext.cuda.multiprocessor import LANES
from topi_ext.errors import CudaError

SIDE = 16
"""Rows and columns of the piece of a product that one fragment of sums covers: two instructions."""

WORDS = 8
"""Words of 32 bits in a row of an operand's fragment."""

_SHAPES_SINCE, _OLDER_SHAPES_SINCE = 80, 75
"""Compute capabilities."""


def extents(shape: str) -> tuple[int, int, int]:
    """Rows, columns and depth of an instruction: 16, 8 and 32 of "m16n8k32"."""
    rows, columns, depth = (int(number) for number in re.findall(r"\d+", shape))
    return rows, columns, depth


@dataclass(frozen=True)
class Multiplication:
    """One kind of ``mma.sync``: dtypes of both operands and of the sums in memory, and in the instruction.

    ``shape`` is the instruction of sm_80 on, ``older_shape`` that of sm_75, empty where it has none. Rows are
    as long as ``depth``. Operands of ``tf32`` are float32 in memory and rounded to the nearest value of 10
    bits of mantissa, ties away from zero (cvt.rna.tf32.f32), before they are multiplied.
    """

    left: str
    right: str
    sums: str
    shape: str
    older_shape: str
    operands: tuple[str, str, str]
    bytes: int

    def shape_on(self, capability: int) -> str:
        """The instruction of an architecture by its compute capability, 80 for sm_80; empty without one."""
        if capability >= _SHAPES_SINCE:
            return self.shape
        return self.older_shape if capability >= _OLDER_SHAPES_SINCE else ""

    @property
    def run(self) -> int:
        """Elements of a word."""
        return 4 // self.bytes

    @property
    def depth(self) -> int:
        """Elements of a row of an operand's fragment."""
        return WORDS * self.run

    @property
    def owned(self) -> int:
        """Elements of an operand's fragment that a lane owns."""
        return SIDE * self.depth // LANES


MULTIPLICATIONS = {
    "float16": Multiplication(
        "float16", "float16", "float32", "m16n8k16", "m16n8k8", ("fp16", "fp16", "fp32"), 2
    ),
    "tf32": Multiplication("float32", "float32", "float32", "m16n8k8", "", ("tf32", "tf32", "fp32"), 4),
    "uint8": Multiplication("uint8", "int8", "int32", "m16n8k32", "m8n8k16", ("uint8", "int8", "int32"), 1),
    "int8": Multiplication("int8", "int8", "int32", "m16n8k32", "m8n8k16", ("int8", "int8", "int32"), 1),
}
"""By what is multiplied, the ``dtype`` of a ``GemmConvolution``."""


def multiplication(dtype: str) -> Multiplication:
    """The multiplication of a dtype; CudaError where ``mma.sync`` is not used for it."""
    if dtype not in MULTIPLICATIONS:
        raise CudaError(f"tensor cores do not multiply {dtype}; use one of {', '.join(MULTIPLICATIONS)}")
    return MULTIPLICATIONS[dtype]


def lane_of(row: Any, column: Any, run: int = 2) -> tuple[Any, Any]:
    """The lane of an element of a left operand of words of ``run`` elements, and its place in the lane.

    Rows 0 to 7 and 8 to 15 alternate from word to word of a lane. With two elements in a word, sums of 16 x
    16 lie the same way.
    """
    word = column // run
    return row % 8 * 4 + word % 4, word // 4 * 2 * run + row // 8 * run + column % run


def right_lane_of(row: Any, column: Any, run: int = 2) -> tuple[Any, Any]:
    """As :func:`lane_of` for a right operand whose rows are columns of the product: those of one
    instruction, 0 to 7 or 8 to 15, lie together.
    """
    word = column // run
    return row % 8 * 4 + word % 4, row // 8 * 2 * run + word // 4 * run + column % run


def left_map(dtype: str) -> Any:
    """Where a left operand's elements lie: fragment, lane, and place within the lane."""
    return _map(lane_of, multiplication(dtype))


def right_map(dtype: str) -> Any:
    """Where a right operand's elements lie."""
    return _map(right_lane_of, multiplication(dtype))


def sum_map(*index: Any) -> tuple[Any, ...]:
    """Where the elements of sums lie."""
    *batch, i, j = index
    return (*batch, i // SIDE, j // SIDE, *lane_of(i % SIDE, j % SIDE))


def _map(place: Any, kind: Multiplication) -> Any:
    def mapped(*index: Any) -> tuple[Any, ...]:
        *batch, row, k = index
        inside = place(row % SIDE, k % kind.depth, kind.run)
        return (*batch, row // SIDE, k // kind.depth, *inside)

    return mapped
