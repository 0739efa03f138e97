"""What a schedule needs to know of a processor: its vector unit and its caches, as data."""

from dataclasses import dataclass, replace
from functools import cache

from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features


@dataclass(frozen=True)
class Processor:
    """A CPU core as a register-tile schedule sees it; sizes in bytes, rates per cycle.

    ``word_instructions``: how many a vector of dot products of four bytes takes; one with VNNI.
    """

    name: str
    vector_bytes: int
    vector_registers: int
    fma_per_cycle: int
    fma_latency: int
    loads_per_cycle: int
    l1_bytes: int
    l2_bytes: int
    threads: int = 1
    word_instructions: int = 5

    def lanes(self, dtype_bytes: int) -> int:
        """Elements of that size in one vector register."""
        return self.vector_bytes // dtype_bytes


_AVX512 = Processor("x86-64 AVX-512", 64, 32, 2, 4, 2, 32 << 10, 1 << 20)
_AVX2 = Processor("x86-64 AVX2", 32, 16, 2, 4, 2, 32 << 10, 256 << 10)
_SSE = Processor("x86-64 SSE", 16, 16, 1, 4, 2, 32 << 10, 256 << 10)
_NEON = Processor("aarch64 NEON", 16, 32, 2, 4, 2, 32 << 10, 256 << 10)


def processor_of(target: Target) -> Processor:
    """The facts of the CPU that ``target`` describes, by the vector extensions it names."""
    attributes = target.attrs
    threads = int(attributes["num-cores"]) if "num-cores" in attributes else 1
    triple = str(attributes["mtriple"]) if "mtriple" in attributes else ""
    cpu = str(attributes["mcpu"]) if "mcpu" in attributes else ""
    features = tuple(str(feature) for feature in attributes["mattr"]) if "mattr" in attributes else ()
    return replace(_family(triple, cpu, features), threads=threads)


@cache
def _family(triple: str, cpu: str, features: tuple[str, ...]) -> Processor:
    if triple.startswith(("aarch64", "arm64")):
        return _NEON
    target = Target(
        {"kind": "llvm", **({"mcpu": cpu} if cpu else {}), **({"mattr": list(features)} if features else {})}
    )
    if llvm_cpu_has_features("avx512f", target):
        return _with_words(_AVX512, llvm_cpu_has_features("avx512vnni", target))
    if llvm_cpu_has_features(["avx2", "fma"], target):
        return _with_words(_AVX2, llvm_cpu_has_features("avxvnni", target))
    return _SSE


def _with_words(processor: Processor, at_once: bool) -> Processor:
    return replace(processor, word_instructions=1) if at_once else processor
