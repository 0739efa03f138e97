"""Comparisons as IEEE 754 has them, where TVM's code generator has others.

Two numbers differ if they are not equal, so that NaN differs from itself; LLVM is asked for "ordered and
not equal" instead. Truth values are compared as if they were floats, which LLVM refuses. And a maximum is
"left if it is greater, else right": with a constant on the left, as no simplification leaves it, NaN on the
right stays NaN, on x86 by the same instruction.
"""

from typing import Any

from tvm import tirx

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.codegen.scalar_operations import element_of, lanes_of, vector_of
from topi_ext.ir import repeated
from topi_ext.machine.architecture import is_aarch64

_TRUTH = "bool"


@function_pass
def exact_comparisons(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """To be run behind everything that simplifies."""
    rules: list[Any] = [(tirx.NE, _different), (tirx.EQ, _equal)]
    # ARM has one instruction for the order that there is, and none for this one.
    if not is_aarch64(func.attrs["target"]):
        rules.append(((tirx.Max, tirx.Min), _constant_first))
    return replaced(func, rules)


def _different(comparison: tirx.NE) -> Any:
    if element_of(comparison.a) == _TRUTH:
        return tirx.NE(*_numbers(comparison))
    if "float" in element_of(comparison.a):
        return tirx.Not(tirx.EQ(comparison.a, comparison.b))
    return comparison


def _equal(comparison: tirx.EQ) -> Any:
    return tirx.EQ(*_numbers(comparison)) if element_of(comparison.a) == _TRUTH else comparison


def _constant_first(extreme: tirx.Max | tirx.Min) -> Any:
    if "float" not in element_of(extreme.a) or not _is_constant(extreme.b):
        return extreme
    return type(extreme)(extreme.b, extreme.a)


def _numbers(comparison: tirx.NE | tirx.EQ) -> tuple[Any, Any]:
    """Truth values as bytes."""
    sides = comparison.a, comparison.b
    left, right = (value.astype(vector_of("uint8", lanes_of(value))) for value in sides)
    return left, right


def _is_constant(value: Any) -> bool:
    return isinstance(repeated(value), tirx.FloatImm)
