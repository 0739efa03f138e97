"""x86-64 processors as data: the levels of their ABI, where they differ, and what LLVM needs to be told."""

from collections.abc import Mapping
from typing import Any

from tvm.target import Target, codegen

INSTRUCTION_SETS: dict[str, tuple[str, ...]] = {
    "x86-64-v2": ("cx16", "popcnt", "sse3", "sse4_1", "sse4_2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"),
    "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}
"""Extensions that each level of the x86-64 ABI adds, as the operating system spells them."""

LLVM_NAMES = {
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
    "amx_tile": "amx-tile",
    "bmi1": "bmi",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
}
"""Extensions that LLVM spells otherwise than the operating system."""

AMX_BYTES = ("amx_int8", "amx_tile")
"""Products of matrices of bytes, which kernels use also where the processor's name does not imply them."""

AMX_BFLOAT16 = "amx_bf16"
"""Those of bfloat16."""

_BEYOND_LEVELS = {
    *AMX_BYTES,
    AMX_BFLOAT16,
    "avx512bf16",
    "avx512bitalg",
    "avx512fp16",
    "avx512ifma",
    "avx512vbmi",
    "avx512vbmi2",
    "avx512vnni",
    "avx512vpopcntdq",
    "avxifma",
    "avxneconvert",
    "avxvnni",
    "avxvnniint16",
    "avxvnniint8",
    "fma4",
    "gfni",
    "vaes",
    "vpclmulqdq",
    "xop",
}

_HALF_VECTORS = "prefer-256-bit"
"""LLVM's tuning for Intel and ``x86-64-v4``: what it vectorizes itself takes half of a register."""


def level_features(name: str) -> tuple[str, ...]:
    """All extensions of an x86-64 level, those of the levels below included; KeyError for another name."""
    features: list[str] = []
    for level, added in INSTRUCTION_SETS.items():
        features += added
        if level == name:
            return tuple(features)
    raise KeyError(name)


def x86_features(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Extensions of x86-64 that code for a target may use, as operating systems spell them."""
    try:
        compiled = codegen.llvm_get_cpu_features(Target({"kind": "llvm", **attributes}))
    except Exception:
        return ()  # what TVM does not accept, it says where the target is built
    names = {str(name) for name in compiled}
    known = {name for level in INSTRUCTION_SETS.values() for name in level} | _BEYOND_LEVELS
    return tuple(sorted(name for name in known if LLVM_NAMES.get(name, name) in names))


def with_full_vectors(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a target with AVX-512, whose kernels use whole registers anyhow.

    LLVM halves vectors lest a few wide instructions slow the clock of all others; here most are wide.
    """
    given = [str(feature) for feature in attributes.get("mattr", ())]
    if any(feature.lstrip("+-") == _HALF_VECTORS for feature in given):
        return dict(attributes)
    return {**attributes, "mattr": [*given, f"-{_HALF_VECTORS}"]}
