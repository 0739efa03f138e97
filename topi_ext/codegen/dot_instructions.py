"""Products of vectors of 32-bit words by the instructions of x86 and ARM."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from topi_ext.codegen.dot_products import PAIR
from topi_ext.codegen.llvm_functions import neon_pair_sums
from topi_ext.codegen.scalar_operations import element_of, lanes_of, vector_of
from topi_ext.codegen.word_instructions import BYTE_SUMS, HALF_SUMS, NEON_LANES, NEON_SUMS, PAIR_SUMS
from topi_ext.indexing import WORD_BYTES


def by_vectors(kind: str, width: int, addend: Any, left: Any, right: Any) -> Any:
    """``addend`` and the products of two vectors of words, by instructions on ``width`` words.

    A vector that is shorter than ``addend`` stands for one that repeats it.
    """
    lanes = lanes_of(addend)
    if lanes > width:
        halves = []
        for half in (tirx.vectorlow, tirx.vectorhigh):
            parts = [_half(half, operand, lanes) for operand in (addend, left, right)]
            halves.append(by_vectors(kind, width, *parts))
        return tirx.vectorcombine(addend.ty.dtype, *halves)
    if kind == "pairs":
        return neon_pair_sums(addend, right, left)
    if kind == "bytes":
        vectors = [tirx.reinterpret(f"int8x{WORD_BYTES * lanes}", words) for words in (left, right)]
        return tirx.call_llvm_pure_intrin(addend.ty.dtype, BYTE_SUMS[lanes], addend, *vectors)
    if kind == "sums":
        vectors = [tirx.reinterpret(f"int8x{WORD_BYTES * lanes}", words) for words in (left, right)]
        sums = tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", PAIR_SUMS[lanes], *vectors)
        ones = tirx.Broadcast(tirx.const(1, "int16"), 2 * lanes)
        return _with_pairs(addend, sums, ones)
    if kind == "wide":
        vectors = [tirx.reinterpret(f"int16x{PAIR * lanes}", words) for words in (left, right)]
        return _with_pairs(addend, *vectors)
    left, right = (tirx.reinterpret("int8x16", words) for words in (left, right))
    # The lane of a word must be the last operand, and data without signs the first.
    factors = (right, left) if kind == "signed" else (left, right)
    return tirx.call_llvm_pure_intrin("int32x4", f"{NEON_SUMS[kind]}.v4i32.v16i8", addend, *factors)


def one_by_one(addend: Any, values: Sequence[Any], factors: Sequence[Any]) -> Any:
    """``addend`` and the products of two words, element by element."""
    dtype = addend.ty.dtype
    for value, factor in zip(values, factors, strict=True):
        addend = addend + value.astype(dtype) * factor.astype(dtype)
    return addend


def _with_pairs(addend: Any, left: Any, right: Any) -> Any:
    """``addend`` of int32 and to each the products of two pairs of int16, as LLVM is to add them up.

    It would change the order of a tile's sums, and then spill what it waits for. The fence is one of floats,
    and becomes no instruction.
    """
    return _fenced(
        addend + tirx.call_llvm_pure_intrin(addend.ty.dtype, HALF_SUMS[lanes_of(addend)], left, right)
    )


def _fenced(words: Any) -> Any:
    """A vector of 32-bit lanes, behind which LLVM does not look for how it is computed."""
    lanes = lanes_of(words)
    floats = tirx.reinterpret(f"float32x{lanes}", words)
    fenced = tirx.call_llvm_pure_intrin(floats.ty.dtype, f"llvm.arithmetic.fence.v{lanes}f32", floats)
    return tirx.reinterpret(words.ty.dtype, fenced)


def in_a_lane(words: Any) -> Any:
    """A broadcast word as lane 0 of a vector of ARM, from which its instructions read it.

    LLVM would load it into all lanes, which takes the units that multiply. It does not look through the
    fence, which becomes no instruction.
    """
    if not isinstance(words, tirx.Broadcast):
        return words
    return lane_of(tirx.Shuffle([words.value, *[tirx.const(0, "int32")] * 3], [0, 1, 2, 3]), 0)


def lane_of(words: Any, lane: int) -> Any:
    """One of the words of a register in all lanes, as instructions read it that take such a lane."""
    return tirx.Shuffle([_fenced(words)] * (NEON_LANES // lanes_of(words)), [lane] * NEON_LANES)


def in_vectors(operand: Any) -> list[Any]:
    """A vector of 32-bit lanes as vectors of ARM."""
    lanes = lanes_of(operand)
    if lanes == NEON_LANES:
        return [operand]
    halves = [_half(half, operand, lanes) for half in (tirx.vectorlow, tirx.vectorhigh)]
    return [part for half in halves for part in in_vectors(half)]


def joined(vectors: Sequence[Any]) -> Any:
    """One vector of those that :func:`in_vectors` gave."""
    if len(vectors) == 1:
        return vectors[0]
    middle = len(vectors) // 2
    dtype = vector_of(element_of(vectors[0]), len(vectors) * NEON_LANES)
    return tirx.vectorcombine(dtype, joined(vectors[:middle]), joined(vectors[middle:]))


def halves_of_words(words: Any) -> list[Any]:
    """The lower halves of four words and the upper ones, as vectors of eight bytes."""
    halves = tirx.reinterpret("int16x8", words)
    lanes = range(PAIR * NEON_LANES)
    return [tirx.reinterpret("int8x8", tirx.Shuffle([halves], list(lanes[at::PAIR]))) for at in range(PAIR)]


def _half(half: Any, operand: Any, lanes: int) -> Any:
    """Half of an operand of so many lanes; a shorter one as it is."""
    if lanes_of(operand) != lanes:
        return operand
    if isinstance(operand, tirx.Broadcast):
        return tirx.Broadcast(operand.value, lanes // 2)
    return half(vector_of(element_of(operand), lanes // 2), operand)
