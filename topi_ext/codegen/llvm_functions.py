"""Functions in LLVM's own language that kernels call, for instructions on types that TVM has no code for.

TVM's code generator knows no vector of bfloat16. What such a function takes and gives are words and floats;
LLVM puts its body in the place of each call.
"""

from functools import cache
from typing import Any

from tvm import tirx
from tvm.ir import StringImm
from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features

from topi_ext.codegen.passes import function_pass
from topi_ext.codegen.scalar_operations import lanes_of, vector_of
from topi_ext.ir import nodes_of
from topi_ext.machine.architecture import is_aarch64

_IMPORT = "pragma_import_llvm"
"""TVM's annotation of statements that call functions of a text in LLVM's language."""

_PAIR_SUMS, _NEON_PAIR_SUMS, _NEON_WORD_SUMS, _NEON_MATRIX_SUMS, _ROUNDED, _PERMUTED, _NEON_PERMUTED = (
    f"topi_ext.llvm.{name}."
    for name in (
        "pair_sums",
        "neon_pair_sums",
        "neon_word_sums",
        "neon_matrix_sums",
        "rounded_bits",
        "permuted",
        "neon_permuted",
    )
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

_NEON_MATRIX_SUMS_TEXT = """
declare <4 x float> @{intrinsic}(<4 x float>, <8 x bfloat>, <8 x bfloat>)
define <4 x float> @{name}(<4 x float> %sums, <8 x i16> %left, <8 x i16> %right) {{
  %rows = bitcast <8 x i16> %left to <8 x bfloat>
  %columns = bitcast <8 x i16> %right to <8 x bfloat>
  %result = call <4 x float> @{intrinsic}(<4 x float> %sums, <8 x bfloat> %rows, <8 x bfloat> %columns)
  ret <4 x float> %result
}}
"""

_ROUNDED_TEXT = """
define <{lanes} x i16> @{name}(<{lanes} x float> %value) {{
  %rounded = fptrunc <{lanes} x float> %value to <{lanes} x bfloat>
  %bits = bitcast <{lanes} x bfloat> %rounded to <{lanes} x i16>
  ret <{lanes} x i16> %bits
}}
"""

PERMUTED_BYTES = 64
"""Bytes of a vector that bytes are chosen from."""

_PERMUTED_TEXT = """
declare <64 x i8> @{intrinsic}(<64 x i8>, <64 x i8>, <64 x i8>)
define <{lanes} x i8> @{name}(<{lanes} x i8> %places,
    <64 x i8> %a, <64 x i8> %b, <64 x i8> %c, <64 x i8> %d) {{
  %wide = shufflevector <{lanes} x i8> %places, <{lanes} x i8> poison, <64 x i32> <{widened}>
  %low = call <64 x i8> @{intrinsic}(<64 x i8> %a, <64 x i8> %wide, <64 x i8> %b)
  %high = call <64 x i8> @{intrinsic}(<64 x i8> %c, <64 x i8> %wide, <64 x i8> %d)
  %is_high = icmp slt <64 x i8> %wide, zeroinitializer
  %all = select <64 x i1> %is_high, <64 x i8> %high, <64 x i8> %low
  %result = shufflevector <64 x i8> %all, <64 x i8> poison, <{lanes} x i32> <{kept}>
  ret <{lanes} x i8> %result
}}
"""
"""VPERMI2B, by the low seven bits of each place, of both halves of a table; the eighth bit chooses."""

_NEON_PERMUTED_TEXT = """
{declarations}
define <{lanes} x i8> @{name}(<{lanes} x i8> %places,
    <64 x i8> %a, <64 x i8> %b, <64 x i8> %c, <64 x i8> %d) {{
  %place_a = shufflevector <{lanes} x i8> %places, <{lanes} x i8> poison, <16 x i32> <{widened}>
{steps}
  %result = shufflevector <16 x i8> %all_d, <16 x i8> poison, <{lanes} x i32> <{kept}>
  ret <{lanes} x i8> %result
}}
"""
"""TBL, and TBX, which leaves a lane as it is whose place is beyond the 64 bytes at hand."""

_FUNCTIONS = (
    (_PAIR_SUMS, _PAIR_SUMS_TEXT, "llvm.x86.avx512bf16.dpbf16ps.{bits}", (4, 8, 16)),
    (_NEON_PAIR_SUMS, _PAIR_SUMS_TEXT, "llvm.aarch64.neon.bfdot.v4f32.v8bf16", (4,)),
    (_NEON_WORD_SUMS, _NEON_WORD_SUMS_TEXT, "", (4,)),
    (_NEON_MATRIX_SUMS, _NEON_MATRIX_SUMS_TEXT, "llvm.aarch64.neon.bfmmla", (4,)),
    # LLVM takes apart what is longer than a register.
    (_ROUNDED, _ROUNDED_TEXT, "", (4, 8, 16, 32, 64)),
    (_PERMUTED, _PERMUTED_TEXT, "llvm.x86.avx512.vpermi2var.qi.512", (4, 8, 16, 32, 64)),
)


def _order(lanes: int, count: int) -> str:
    """Lanes of a shuffle that has ``count``: all of ``lanes`` as they are, and anything behind them."""
    return ", ".join(f"i32 {lane}" if lane < lanes else "i32 poison" for lane in range(count))


def _neon_permuted_text(name: str, lanes: int) -> str:
    vector = "<16 x i8>"
    prefix = "llvm.aarch64.neon"
    declarations = [
        f"declare {vector} @{prefix}.tbl4.v16i8({', '.join([vector] * 5)})",
        f"declare {vector} @{prefix}.tbx4.v16i8({', '.join([vector] * 6)})",
    ]
    steps: list[str] = []
    for number, part in enumerate("abcd"):
        pieces = [f"%{part}{piece}" for piece in range(4)]
        for piece, variable in enumerate(pieces):
            own = ", ".join(f"i32 {16 * piece + lane}" for lane in range(16))
            whole = f"<64 x i8> %{part}, <64 x i8> poison"
            steps.append(f"  {variable} = shufflevector {whole}, <16 x i32> <{own}>")
        table = ", ".join(f"{vector} {piece}" for piece in pieces)
        if number == 0:
            steps.append(f"  %all_a = call {vector} @{prefix}.tbl4.v16i8({table}, {vector} %place_a)")
            continue
        before = "abcd"[number - 1]
        back = ", ".join(["i8 64"] * 16)
        steps.append(f"  %place_{part} = sub {vector} %place_{before}, <{back}>")
        operands = f"{vector} %all_{before}, {table}, {vector} %place_{part}"
        steps.append(f"  %all_{part} = call {vector} @{prefix}.tbx4.v16i8({operands})")
    return _NEON_PERMUTED_TEXT.format(
        name=name,
        lanes=lanes,
        declarations="\n".join(declarations),
        steps="\n".join(steps),
        widened=_order(lanes, 16),
        kept=_order(lanes, lanes),
    )


_TEXTS = {
    f"{name}{lanes}": text.format(
        name=f"{name}{lanes}",
        lanes=lanes,
        twice=2 * lanes,
        intrinsic=intrinsic.format(bits=32 * lanes),
        widened=_order(lanes, PERMUTED_BYTES),
        kept=_order(lanes, lanes),
    )
    for name, text, intrinsic, many in _FUNCTIONS
    for lanes in many
} | {
    f"{_NEON_PERMUTED}{lanes}": _neon_permuted_text(f"{_NEON_PERMUTED}{lanes}", lanes) for lanes in (4, 8, 16)
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


def neon_matrix_sums(sums: Any, rows: Any, columns: Any) -> Any:
    """``sums`` of float32, two by two, and to each the products of a row by a column of four bfloat16.

    Both operands are eight uint16, their bits. That is ARM's BFMMLA.
    """
    return tirx.call_pure_extern(sums.ty.dtype, f"{_NEON_MATRIX_SUMS}4", sums, rows, columns)


def has_rounding(target: Target, lanes: int) -> bool:
    """Has the target an instruction for :func:`rounded_bits` of that many lanes?"""
    return f"{_ROUNDED}{lanes}" in _TEXTS and _multiplies_pairs(target)


def rounded_bits(value: Any) -> Any:
    """Those of a vector of float32 as bfloat16, by VCVTNEPS2BF16 of AVX512_BF16 or ARM's BFCVTN."""
    lanes = lanes_of(value)
    return tirx.call_pure_extern(vector_of("uint16", lanes), f"{_ROUNDED}{lanes}", value)


def has_permutations(target: Target, lanes: int) -> bool:
    """Has the target instructions for :func:`permuted` of that many lanes?"""
    if is_aarch64(target):
        return f"{_NEON_PERMUTED}{lanes}" in _TEXTS
    return f"{_PERMUTED}{lanes}" in _TEXTS and bool(llvm_cpu_has_features(["avx512vbmi", "avx512bw"], target))


def permuted(target: Target, places: Any, parts: list[Any]) -> Any:
    """The bytes at ``places`` of a table of 256 bytes in four ``parts``: a vector of uint8."""
    name = _NEON_PERMUTED if is_aarch64(target) else _PERMUTED
    return tirx.call_pure_extern(places.ty.dtype, f"{name}{lanes_of(places)}", places, *parts)


@cache
def _multiplies_pairs(target: Target) -> bool:
    return bool(llvm_cpu_has_features("bf16" if is_aarch64(target) else ["avx512bf16", "avx512vl"], target))


@function_pass
def import_functions(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Every function's text comes with the kernel that calls it, and so names it."""
    texts = nodes_of(func.body, StringImm)
    called = {str(text.value) for text in texts} & _TEXTS.keys()
    body = func.body
    for name in sorted(called):
        anything = tirx.IterVar(None, tirx.Var("imported", "int32"), tirx.IterVar.DataPar)
        body = tirx.AttrStmt(anything, _IMPORT, StringImm(_TEXTS[name]), body)
    return func.with_body(body) if called else func
