"""Dot products of the elements of a word, as computes say them.

Four bytes, two int16 or two bfloat16 are the unit of products. In a compute, :func:`dot` is one scalar
operation, which schedules split and vectorize like any other; :mod:`topi_ext.codegen.dot_lowering` makes
instructions of it.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Call

from topi_ext.codegen.bfloat16 import BITS
from topi_ext.codegen.scalar_operations import lanes_of, scalar_operation, vector_of

_NAME, _FITTING = "topi_ext.dot", "topi_ext.dot_of_fitting_pairs"
"""The second is of bytes where two neighbouring products add up to an int16."""

PAIR = 2
"""Elements of a word of bfloat16 or int16."""

HALF_BITS = 16
"""Bits of each of them."""

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


def word_of(low: Any, high: Any) -> Any:
    """The word of uint32 whose lower and upper 16 bits these are."""
    return low.astype("uint32") | (high.astype("uint32") << tirx.const(HALF_BITS, "uint32"))


def halves_of(word: Any) -> list[Any]:
    """Both elements of 16 bits of a word of uint32, the lower one first."""
    halves = (word, word >> tirx.const(HALF_BITS, word.ty.dtype))
    return [half.astype(vector_of(BITS, lanes_of(word))) for half in halves]
