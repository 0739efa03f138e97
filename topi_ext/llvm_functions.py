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

_PAIR_SUMS, _NEON_PAIR_SUMS, _NEON_WORD_SUMS, _ROUNDED = (
    f"topi_ext.llvm.{name}." for name in ("pair_sums", "neon_pair_sums", "neon_word_sums", "rounded_bits")
)
"""Names of functions, without the number of lanes of their results."""

_PAIR_SUMS_TEXT = """
declare <{lanes} x float> @{intrinsic}(<{lanes} x float>, <{twice} x bfloat>, <{twice} x bfloat>)
define <{lanes} x float> @{name}(<{lanes} x float> %sums, <{lanes} x i32> %left, <{lanes} x i32> %right) {{
  %pairs = bitcast <{lanes} x i32> %left to <{twice} x bfloat>
  %factors = bitcast <{lanes} x i32> %right to <{twice} x bfloat>
  %result = call <{lanes} x float> @{intrinsic}(
    <{lanes} x float> %sums, <{twice} x bfloat> %pairs, <{twice} x bfloat> %factors)
  ret <{lanes} x float> %result
}}
"""

_NEON_WORD_SUMS_TEXT = """
define <{lanes} x float> @{name}(<{lanes} x float> %sums, <{lanes} x i32> %left, i32 %word) {{
  %words = insertelement <{lanes} x i32> poison, i32 %word, i64 0
  %result = call <{lanes} x float> asm "bfdot $0.4s, $2.8h, $3.2h[0]", "=w,0,w,w"(
    <{lanes} x float> %sums, <{lanes} x i32> %left, <{lanes} x i32> %words)
  ret <{lanes} x float> %result
}}
"""
"""LLVM 22 does not find the form of BFDOT that reads one word from a lane, and repeats the word first."""

_ROUNDED_TEXT = """
define <{lanes} x i16> @{name}(<{lanes} x float> %value) {{
  %rounded = fptrunc <{lanes} x float> %value to <{lanes} x bfloat>
  %bits = bitcast <{lanes} x bfloat> %rounded to <{lanes} x i16>
  ret <{lanes} x i16> %bits
}}
"""

_FUNCTIONS = (
    (_PAIR_SUMS, _PAIR_SUMS_TEXT, "llvm.x86.avx512bf16.dpbf16ps.{bits}", (4, 8, 16)),
    (_NEON_PAIR_SUMS, _PAIR_SUMS_TEXT, "llvm.aarch64.neon.bfdot.v4f32.v8bf16", (4,)),
    (_NEON_WORD_SUMS, _NEON_WORD_SUMS_TEXT, "", (4,)),
    # LLVM takes apart what is longer than a register.
    (_ROUNDED, _ROUNDED_TEXT, "", (4, 8, 16, 32, 64)),
)

_TEXTS = {
    f"{name}{lanes}": text.format(
        name=f"{name}{lanes}", lanes=lanes, twice=2 * lanes, intrinsic=intrinsic.format(bits=32 * lanes)
    )
    for name, text, intrinsic, many in _FUNCTIONS
    for lanes in many
}


def has_pair_sums(target: Target, lanes: int) -> bool:
    """Has the target an instruction for :func:`pair_sums` of that many lanes?"""
    name = _NEON_PAIR_SUMS if is_aarch64(target) else _PAIR_SUMS
    return f"{name}{lanes}" in _TEXTS and _multiplies_pairs(target)


def pair_sums(sums: Any, left: Any, right: Any) -> Any:
    """``sums`` of float32 and to each the products of two pairs of bfloat16, which words hold.

    That is VDPBF16PS of AVX512_BF16.
    """
    return tirx.call_pure_extern(sums.ty.dtype, f"{_PAIR_SUMS}{lanes_of(sums)}", sums, left, right)


def neon_pair_sums(sums: Any, left: Any, right: Any) -> Any:
    """As :func:`pair_sums`, by ARM's BFDOT; ``right`` may be one word for all lanes."""
    name = _NEON_WORD_SUMS if lanes_of(right) == 1 else _NEON_PAIR_SUMS
    return tirx.call_pure_extern(sums.ty.dtype, f"{name}{lanes_of(sums)}", sums, left, right)


def has_rounding(target: Target, lanes: int) -> bool:
    """Has the target an instruction for :func:`rounded_bits` of that many lanes?"""
    return f"{_ROUNDED}{lanes}" in _TEXTS and _multiplies_pairs(target)


def rounded_bits(value: Any) -> Any:
    """Those of a vector of float32 as bfloat16, by VCVTNEPS2BF16 of AVX512_BF16 or ARM's BFCVTN."""
    lanes = lanes_of(value)
    return tirx.call_pure_extern(vector_of("uint16", lanes), f"{_ROUNDED}{lanes}", value)


@cache
def _multiplies_pairs(target: Target) -> bool:
    return bool(llvm_cpu_has_features("bf16" if is_aarch64(target) else ["avx512bf16", "avx512vl"], target))


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


__all__ = [
    "has_pair_sums",
    "has_rounding",
    "import_functions",
    "neon_pair_sums",
    "pair_sums",
    "rounded_bits",
]
