"""Dot products of the elements of a word, as computes say them.

Four bytes, two int16 or two bfloat16 are the unit of products. In a compute, :func:`dot` is one scalar
operation, which schedules split and vectorize like any other; :mod:`topi_ext.codegen.dot_lowering` makes
instructions of it.
"""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call

from topi_ext.codegen.scalar_operations import lanes_of, scalar_operation, vector_of

_NAME, _FITTING = "topi_ext.dot", "topi_ext.dot_of_fitting_pairs"
"""The second is of bytes where two neighbouring products add up to an int16."""

PAIR = 2
"""Elements of a word of bfloat16 or int16."""

HALF_BITS = 16
"""Bits of each of them."""

WORD_BITS = PAIR * HALF_BITS

scalar_operation(_NAME)
scalar_operation(_FITTING)


def dot(
    values: Sequence[Any], factors: Sequence[Any], out_dtype: str = "int32", *, pairs_fit: bool = False
) -> Any:
    """The sum of the products of ``values`` with as many ``factors``.

    It is int32 of four ``values`` of uint8 or int8 with int8, where which of the two has instructions is for
    a processor to say (``signed_words`` of :class:`topi_ext.machine.processor.Processor`), or of two and two
    int16. It is float32 of two and two bfloat16, each of them widened from its bits
    (:func:`topi_ext.codegen.bfloat16.widened`). With ``pairs_fit`` the products of the first two bytes add up
    to an int16 whatever the ``values`` are, and so do those of the others; x86 without VNNI has an
    instruction for that, which saturates otherwise.
    """
    name = _FITTING if pairs_fit else _NAME
    return tirx.call_intrin(out_dtype, name, *values, *factors)


def operands(call: Any) -> tuple[list[Any], list[Any]]:
    """The values and the factors of a :func:`dot`."""
    half = len(call.args) // 2
    return list(call.args[:half]), list(call.args[half:])


def is_dot(expression: Any) -> bool:
    """Is it a call of :func:`dot`?"""
    return isinstance(expression, Call) and getattr(expression.op, "name", "") in (_NAME, _FITTING)


def has_fitting_pairs(call: Call) -> bool:
    """Whether the products of neighbouring bytes of a :func:`dot` add up to an int16."""
    return bool(call.op.name == _FITTING)


def word_of(*elements: Any) -> Any:
    """The word of uint32 of two elements of 16 bits or four bytes, unsigned, the first one lowest."""
    parts = [element.astype("uint32") for element in elements]
    bits = WORD_BITS // len(parts)
    word = parts[0]
    for place, part in enumerate(parts[1:], 1):
        word = word | (part << tirx.const(bits * place, "uint32"))
    return word


def parts_of(word: Any, dtype: str) -> list[Any]:
    """The elements of ``dtype`` of a word of uint32, or of a vector of them, the lowest first."""
    bits = tvm.DataType(dtype).bits
    starts = range(0, WORD_BITS, bits)
    parts = (word >> tirx.const(start, word.ty.dtype) if start else word for start in starts)
    return [part.astype(vector_of(dtype, lanes_of(word))) for part in parts]
