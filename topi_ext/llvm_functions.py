"""Functions in LLVM's own language that kernels call, for instructions on types that TVM has no code for.

TVM's code generator knows no vector of bfloat16. What such a function takes and gives are words and floats;
LLVM puts its body in the place of each call.
"""

from functools import cache
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, StringImm
from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features
from tvm_ffi import structural_walk

from topi_ext.processor import is_aarch64
from topi_ext.scalar_operations import lanes_of, vector_of

_IMPORT = "pragma_import_llvm"
"""TVM's annotation of statements that call functions of a text in LLVM's language."""

_PREFIX = "topi_ext.llvm."
_PAIR_SUMS, _ROUNDED = f"{_PREFIX}pair_sums.", f"{_PREFIX}rounded."

_LANES = {_PAIR_SUMS: (4, 8, 16), _ROUNDED: (4, 8, 16, 32, 64)}
"""Of what each of them takes; LLVM takes apart what is longer than a register."""

_PAIR_SUM_TEXT = """
declare <{lanes} x float> @llvm.x86.avx512bf16.dpbf16ps.{bits}(
  <{lanes} x float>, <{twice} x bfloat>, <{twice} x bfloat>)
define <{lanes} x float> @{name}(<{lanes} x float> %sums, <{lanes} x i32> %left, <{lanes} x i32> %right) {{
  %pairs = bitcast <{lanes} x i32> %left to <{twice} x bfloat>
  %factors = bitcast <{lanes} x i32> %right to <{twice} x bfloat>
  %result = call <{lanes} x float> @llvm.x86.avx512bf16.dpbf16ps.{bits}(
    <{lanes} x float> %sums, <{twice} x bfloat> %pairs, <{twice} x bfloat> %factors)
  ret <{lanes} x float> %result
}}
"""

_ROUNDED_TEXT = """
define <{lanes} x i16> @{name}(<{lanes} x float> %value) {{
  %rounded = fptrunc <{lanes} x float> %value to <{lanes} x bfloat>
  %bits = bitcast <{lanes} x bfloat> %rounded to <{lanes} x i16>
  ret <{lanes} x i16> %bits
}}
"""

_TEXTS = {
    f"{prefix}{lanes}": text.format(name=f"{prefix}{lanes}", lanes=lanes, twice=2 * lanes, bits=32 * lanes)
    for prefix, text in ((_PAIR_SUMS, _PAIR_SUM_TEXT), (_ROUNDED, _ROUNDED_TEXT))
    for lanes in _LANES[prefix]
}


def has_pair_sums(target: Target, lanes: int) -> bool:
    """Has the target an instruction for :func:`pair_sums` of that many lanes?"""
    return lanes in _LANES[_PAIR_SUMS] and _multiplies_pairs(target)


def pair_sums(sums: Any, left: Any, right: Any) -> Any:
    """``sums`` of float32 and to each the products of two pairs of bfloat16, which words hold.

    That is VDPBF16PS of AVX512_BF16.
    """
    return tirx.call_pure_extern(sums.ty.dtype, f"{_PAIR_SUMS}{lanes_of(sums)}", sums, left, right)


def has_rounding(target: Target, lanes: int) -> bool:
    """Has the target an instruction for :func:`rounded_bits` of that many lanes?"""
    return lanes in _LANES[_ROUNDED] and _multiplies_pairs(target)


def rounded_bits(value: Any) -> Any:
    """Those of a vector of float32 as bfloat16, by VCVTNEPS2BF16 of AVX512_BF16."""
    lanes = lanes_of(value)
    return tirx.call_pure_extern(vector_of("uint16", lanes), f"{_ROUNDED}{lanes}", value)


@cache
def _multiplies_pairs(target: Target) -> bool:
    return not is_aarch64(target) and llvm_cpu_has_features(["avx512bf16", "avx512vl"], target)


def import_functions() -> tvm.transform.Pass:
    """Every function's text comes with the kernel that calls it."""

    def on_function(func: tirx.PrimFunc, module: tvm.IRModule, context: Any) -> tirx.PrimFunc:
        del module, context
        called: set[str] = set()

        def on_call(call: Call) -> None:
            if call.args and isinstance(call.args[0], StringImm):
                called.add(str(call.args[0].value))

        structural_walk(func.body, (Call, on_call))
        body = func.body
        for name in sorted(called & _TEXTS.keys()):
            anything = tirx.IterVar(None, tirx.Var("imported", "int32"), tirx.IterVar.DataPar)
            body = tirx.AttrStmt(anything, _IMPORT, StringImm(_TEXTS[name]), body)
        return func.with_body(body)

    return tirx.transform.prim_func_pass(on_function, opt_level=0, name="topi_ext.import_functions")


__all__ = ["has_pair_sums", "has_rounding", "import_functions", "pair_sums", "rounded_bits"]
