"""Numbers that are rounded to bytes, as quantized networks do it with every result, in few instructions.

A number between bounds that is rounded and cast is a minimum, a maximum, a rounding, a conversion, and the
cut to a byte. On x86 the conversion rounds itself, and the cut holds what is too large at 255 (VPMOVUSDB).
Bytes that are made numbers again need neither conversion: what was rounded is a whole number already.
"""

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, Op
from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.codegen.scalar_operations import element_of, lanes_of, vector_of
from topi_ext.ir import repeated
from topi_ext.machine.architecture import is_aarch64

_LARGEST = 255
"""The largest uint8."""

_CONVERSIONS = {
    16: ("llvm.x86.avx512.mask.cvtps2dq.512", "avx512bw"),
    8: ("llvm.x86.avx.cvt.ps2dq.256", "avx2"),
    4: ("llvm.x86.sse2.cvtps2dq", "sse4.1"),
}
"""Conversions to int32 that round halves to even, by lanes, and features of processors that have them and the
rest. What int32 cannot hold becomes the least one, which is large without a sign."""

_CURRENT_ROUNDING, _ALL_LANES = 4, -1


@function_pass
def lower_rounded_bytes(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """To be run behind everything that simplifies or puts operands of extremes in order."""
    target = func.attrs["target"]
    found = replaced(func, (tirx.Cast, _of_whole_numbers))
    return replaced(found, (tirx.Cast, lambda cast: _in_one_step(cast, target)))


@dataclass(frozen=True)
class _Rounded:
    """``value``, held between two whole numbers and rounded, and ``shift`` added: a byte."""

    value: Any
    low: int
    high: int
    shift: int


def _of_whole_numbers(cast: tirx.Cast) -> Any:
    """Without the way over bytes, where a float32 is made of what was rounded to one."""
    inner = cast.value
    if element_of(cast) == "float32" and isinstance(inner, tirx.Cast) and _rounded(inner) is not None:
        return inner.value
    return cast


def _in_one_step(cast: tirx.Cast, target: Target) -> Any:
    """Rounded by the conversion and held at 255 by the cut, where the processor has both."""
    found = _rounded(cast)
    lanes = lanes_of(cast)
    if (
        found is None
        or is_aarch64(target)
        or found.high + found.shift != _LARGEST
        or lanes not in _CONVERSIONS
    ):
        return cast
    conversion, feature = _CONVERSIONS[lanes]
    if not llvm_cpu_has_features(feature, target):
        return cast
    # With the number first, what is not a number becomes the bound.
    bounded = tirx.Max(found.value, tirx.Broadcast(tirx.const(found.low, "float32"), lanes))
    integers = vector_of("int32", lanes)
    masked = [tirx.const(_ALL_LANES, "int16"), tirx.const(_CURRENT_ROUNDING, "int32")]
    passed = [tirx.Broadcast(tirx.const(0, "int32"), lanes), *masked] if lanes == max(_CONVERSIONS) else []
    whole = tirx.call_llvm_pure_intrin(integers, conversion, bounded, *passed)
    if found.shift:
        whole = whole + tirx.Broadcast(tirx.const(found.shift, "int32"), lanes)
    unsigned = vector_of("uint32", lanes)
    held = tirx.Min(tirx.reinterpret(unsigned, whole), tirx.Broadcast(tirx.const(_LARGEST, "uint32"), lanes))
    return tirx.Cast(str(cast.ty.dtype), held)


def _rounded(cast: tirx.Cast) -> _Rounded | None:
    """What a cast to bytes rounds; None where it does more than round."""
    if element_of(cast) != "uint8":
        return None
    is_shifted = isinstance(cast.value, tirx.Add)
    value, shift = _and_constant(cast.value) if is_shifted else (cast.value, 0.0)
    if not (isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "tirx.nearbyint"):
        return None
    value, high = _bound(value.args[0], tirx.Min)
    value, low = _bound(value, tirx.Max)
    bounds = (low, high, shift)
    if any(bound is None or not float(bound).is_integer() for bound in bounds):
        return None
    least, most, added = (int(bound) for bound in bounds if bound is not None)
    fits = least + added >= 0 and most + added <= _LARGEST
    return _Rounded(value, least, most, added) if fits else None


def _bound(value: Any, kind: Any) -> tuple[Any, float | None]:
    return _and_constant(value) if isinstance(value, kind) else (value, None)


def _and_constant(operation: Any) -> tuple[Any, float | None]:
    """What is not constant of two operands, and the other; None for that if neither is."""
    for value, other in ((operation.a, operation.b), (operation.b, operation.a)):
        number = repeated(other)
        if isinstance(number, tirx.FloatImm):
            return value, float(number.value)
    return operation, None
