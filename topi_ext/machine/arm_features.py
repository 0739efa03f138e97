"""What extensions a 64-bit ARM processor has, as the Linux kernel tells them."""

from collections.abc import Collection, Iterator, Sequence

CAPABILITY_WORDS = 16, 26
"""AT_HWCAP and AT_HWCAP2 of ``getauxval(3)``: the words in which the kernel tells every process."""

_BITS = (
    {
        0: "fp",
        1: "asimd",
        3: "aes",
        4: "pmull",
        5: "sha1",
        6: "sha2",
        7: "crc32",
        8: "atomics",
        10: "asimdhp",
        12: "asimdrdm",
        13: "jscvt",
        14: "fcma",
        15: "lrcpc",
        20: "asimddp",
        22: "sve",
        23: "asimdfhm",
    },
    {1: "sve2", 13: "i8mm", 14: "bf16"},
)
"""What the bits of both words stand for (``asm/hwcap.h``) in ``/proc/cpuinfo``; those that LLVM may use."""

_ALIASES = {
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdfhm": "fp16fml",
    "asimdhp": "fullfp16",
    "asimdrdm": "rdm",
    "atomics": "lse",
    "crc32": "crc",
    "fcma": "complxnum",
    "fp": "fp-armv8",
    "jscvt": "jsconv",
    "lrcpc": "rcpc",
}
"""LLVM's names of what the kernel calls otherwise."""


def told_features(words: Sequence[int]) -> frozenset[str] | None:
    """Features by both :data:`CAPABILITY_WORDS`, in the kernel's words and LLVM's; None if they tell none."""
    found = frozenset(
        name for word, bits in zip(words, _BITS, strict=True) for bit, name in bits.items() if word >> bit & 1
    )
    return found | frozenset(llvm_names(found)) if found else None


def capability(feature: str) -> tuple[int, int] | None:
    """The word of :data:`CAPABILITY_WORDS` and the bit in it that tell of a feature; None if none does."""
    for word, bits in zip(CAPABILITY_WORDS, _BITS, strict=True):
        for bit, name in bits.items():
            if feature in (name, _ALIASES.get(name)):
                return word, bit
    return None


def llvm_names(flags: Collection[str]) -> Iterator[str]:
    """LLVM's names of features that the kernel calls otherwise."""
    yield from (_ALIASES[flag] for flag in flags if flag in _ALIASES)
    if {"sha1", "sha2"} <= set(flags):
        yield "sha2"
