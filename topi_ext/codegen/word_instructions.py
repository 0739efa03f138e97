"""Which instructions a target has for dot products of words of integers, and LLVM's names of them."""

from functools import cache

from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features

from topi_ext.machine.architecture import is_aarch64

BYTE_SUMS = {lanes: f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" for lanes in (4, 8, 16)}
"""Add to each int32 the products of four uint8 with four int8, by lanes."""

HALF_SUMS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
"""Sums of the products of two pairs of int16, by lanes."""

PAIR_SUMS = {
    4: "llvm.x86.ssse3.pmadd.ub.sw.128",
    8: "llvm.x86.avx2.pmadd.ub.sw",
    16: "llvm.x86.avx512.pmaddubs.w.512",
}
"""Sums of the products of two pairs of uint8 and int8 as int16, which saturate, by lanes."""

_HALF_SUM_FEATURES = {4: "sse2", 8: "avx2", 16: "avx512bw"}

NEON_LANES = 4
"""Words of a vector of ARM; longer ones are taken apart."""

NEON_SUMS = {"signed": "llvm.aarch64.neon.sdot", "mixed": "llvm.aarch64.neon.usdot"}
"""Add to each int32 the products of four bytes with four others, by :func:`instructions_for`."""


@cache
def width_of(target: Target, lanes: int, values: str) -> int:
    """How many words of a vector of ``lanes`` the instructions for ``values`` take; 0 without any."""
    widths = (NEON_LANES,) if is_aarch64(target) else BYTE_SUMS
    fitting = [width for width in widths if width <= lanes and fills_vectors(lanes, width)]
    return max((width for width in fitting if instructions_for(target, width, values)), default=0)


@cache
def instructions_for(target: Target, lanes: int, values: str) -> str:
    """What multiplies vectors of ``values``, uint8 or int8 by int8 or int16 by int16; "" where nothing does.

    On x86 ``"bytes"`` for VNNI, ``"sums"`` where it adds pairs that fit and ``"wide"`` of int16; on ARM
    ``"signed"`` and ``"mixed"`` for dot products, ``"long"`` for products of 16 bits.
    """
    if is_aarch64(target):
        return "" if values == "int16" else _neon_instructions(target, values)
    if values == "int8" or not llvm_cpu_has_features(_HALF_SUM_FEATURES[lanes], target):
        return ""
    if values == "int16":
        return "wide"
    if llvm_cpu_has_features("avx512vnni", target) and (
        lanes == 16 or llvm_cpu_has_features("avx512vl", target)
    ):
        return "bytes"
    if lanes < 16 and llvm_cpu_has_features("avxvnni", target):
        return "bytes"
    return "sums" if llvm_cpu_has_features("ssse3", target) else ""


def fills_vectors(lanes: int, width: int) -> bool:
    """Do words of that many lanes fill vectors of that width, which are taken apart by halves?"""
    return lanes % width == 0 and lanes & (lanes - 1) == 0


def _neon_instructions(target: Target, values: str) -> str:
    if values == "uint8":
        return "mixed" if llvm_cpu_has_features("i8mm", target) else ""
    return "signed" if llvm_cpu_has_features("dotprod", target) else "long"
