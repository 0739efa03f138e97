"""bfloat16 in memory: its bits as uint16, and their conversion from float32 and back.

In computes both are one scalar operation, which schedules split and vectorize like any other; they become
arithmetic on words before code is generated, when nothing copies an expression any more. TVM's own bfloat16
would be float32 within a function, also where instructions take its address.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Call

from topi_ext.codegen.llvm_functions import has_rounding, rounded_bits
from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.codegen.scalar_operations import lanes_of, scalar_operation, vector_of
from topi_ext.ir import nodes_of

BITS = "uint16"

_ROUNDED, _WIDENED = "topi_ext.bfloat16_bits", "topi_ext.bfloat16_float"
CONVERSIONS = (scalar_operation(_ROUNDED), scalar_operation(_WIDENED))
"""Both operators."""

_UPPER = 16
"""Bits by which the upper half of a float32, its bfloat16, is shifted."""
_HALF = 0x7FFF
"""Half a unit of the lower 16 bits of a float32, which bfloat16 leaves out."""


def rounded(value: Any) -> Any:
    """The bits of a float32 rounded to the nearest bfloat16, and of two to the even one."""
    return without_detour(tirx.call_intrin(BITS, _ROUNDED, value))


def without_detour(call: Any) -> Any:
    """The bits themselves where a call of :func:`rounded` gets what was made float32 of them."""
    if call.op.name != _ROUNDED:
        return call
    (value,) = call.args
    bits = without_conversion(value)
    return call if bits is value else bits


def widened(bits: Any) -> Any:
    """The float32 that they are the upper half of."""
    return tirx.call_intrin("float32", _WIDENED, bits)


def without_conversion(value: Any) -> Any:
    """The bits that ``value`` is :func:`widened` from; other values as they are."""
    return value.args[0] if isinstance(value, Call) and value.op.name == _WIDENED else value


@function_pass
def lower_bfloat16(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Every conversion in functions that are vectorized, as arithmetic."""
    calls = nodes_of(func.body, Call)
    if not any(call.op in CONVERSIONS for call in calls):
        return func

    def on_call(call: Any) -> Any:
        if call.op not in CONVERSIONS:
            return call
        (value,) = call.args
        lanes = lanes_of(call)
        if call.op.name == _WIDENED:
            return _float_of(value, lanes)
        has_instruction = has_rounding(func.attrs["target"], lanes)
        return rounded_bits(value) if has_instruction else _bits_of(value, lanes)

    return replaced(func, (Call, on_call))


def _float_of(bits: Any, lanes: int) -> Any:
    dtype = vector_of("uint32", lanes)
    return tirx.reinterpret(vector_of("float32", lanes), bits.astype(dtype) << tirx.const(_UPPER, dtype))


def _bits_of(value: Any, lanes: int) -> Any:
    dtype = vector_of("uint32", lanes)
    word = tirx.Var("word", dtype)
    upper = tirx.const(_UPPER, dtype)
    last = (word >> upper) & tirx.const(1, dtype)
    bits = ((word + last + tirx.const(_HALF, dtype)) >> upper).astype(vector_of(BITS, lanes))
    return tirx.Let(word, tirx.reinterpret(dtype, value), bits)
