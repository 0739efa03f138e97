"""What a schedule needs to know of a processor: its vector unit and its caches, as data."""

import math
from dataclasses import dataclass, replace
from functools import cache as remembered
from typing import NamedTuple

from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.machine.architecture import is_aarch64

LINE_BYTES = 64
"""A line of a cache."""

LAST_CACHE_BYTES = 16 << 20
"""The part of the last-level cache that one kernel can count on."""

LAUNCH_CYCLES = 4000.0
"""Measured on x86: a parallel loop takes 0.4 to 2 microseconds to start; more where threads sleep."""


def parallel_cycles(threads: int = 2, launch_cycles: float = LAUNCH_CYCLES) -> float:
    """As :attr:`Processor.parallel_cycles`; of one thread as of two, for it may be run by more."""
    return launch_cycles / (1.0 - 1.0 / max(2, threads))


@dataclass(frozen=True)
class Processor:
    """A CPU core as a register-tile schedule sees it; sizes in bytes, rates per cycle."""

    name: str
    vector_bytes: int
    vector_registers: int
    fma_per_cycle: int
    """Instructions on whole vectors, or on those of :attr:`unit_bytes`."""

    fma_latency: int
    loads_per_cycle: int
    l1_bytes: int
    l2_bytes: int
    threads: int = 1
    cache_bytes_per_cycle: float = 10.0
    """What each thread gets from the last-level cache while all threads read."""

    memory_bytes_per_cycle: float = 5.0
    """As :attr:`cache_bytes_per_cycle`, from memory."""

    l1_ways: int = 8
    """Lines that the level-1 cache holds of those that are multiples of :attr:`way_bytes` apart."""

    prefetch: bool = True
    """Do kernels prefetch weights, because the hardware would be late?"""

    prefetch_again: bool = True
    """Does every tile of pixels prefetch the weights of the next tile of channels, not only the first one?"""

    memory_operands: bool = True
    """May a multiply-add read one operand from memory?"""

    registers_in_flight: int = 0
    """Vector registers that hold operands loaded early, as the compiler has to on an in-order core."""

    scheduling_model: str = ""
    """The core by which LLVM's machine-code analyser describes this one; see :data:`ARM_CORES`. Empty where
    the analyser is not used."""

    word_instructions: int = 5
    """Instructions for a vector of dot products of four bytes; one with VNNI or ARM's ``dotprod``."""

    adds_byte_products: bool = False
    """Is there an instruction that adds the products of two bytes to a saturating int16?"""

    byte_matrices: bool = False
    """Is there an instruction that multiplies matrices of bytes (:mod:`topi_ext.codegen.neon_matrices`)?"""

    signed_words: bool = False
    """Must the data of dot products be int8, because no instruction multiplies uint8 by int8?"""

    pixel_words: bool = False
    """Can one permutation gather the bytes of four neighbouring vectors into words?"""

    store_operations: int = 0
    """Slots of the multiply-add units that storing a vector takes."""

    launch_cycles: float = LAUNCH_CYCLES
    """Handing work to the other threads and waiting for them."""

    amx_registers: int = 0
    """Registers of 16 rows of 64 bytes for products of words; see :mod:`topi_ext.codegen.amx`."""

    bfloat16_instructions: int = 0
    """As :attr:`word_instructions`, for dot products of two bfloat16; 0 where there are none."""

    bfloat16_latency: int = 4
    """As :attr:`fma_latency`, of :attr:`bfloat16_instructions`."""

    bfloat16_matrices: bool = False
    """As :attr:`byte_matrices`, for bfloat16."""

    separable: bool = False
    """Are kernels of a depthwise convolution and the pointwise one after it worth considering? Where that was
    measured."""

    vector_units: int = 0
    """As :attr:`fma_per_cycle`, for arithmetic other than multiply-adds; 0 where it is the same."""

    unit_bytes: int = 0
    """What a vector unit or a load takes at once of a longer vector; 0 where that is all of it."""

    def passes(self, size: int) -> int:
        """How many times as long an instruction on a vector of ``size`` bytes keeps its unit busy."""
        return max(1, math.ceil(min(size, self.vector_bytes) / (self.unit_bytes or self.vector_bytes)))

    @property
    def way_bytes(self) -> int:
        """The part of the level-1 cache that holds one line of each set."""
        return self.l1_bytes // self.l1_ways

    @property
    def vector_passes(self) -> int:
        """As :meth:`passes`, of whole vectors."""
        return self.passes(self.vector_bytes)

    @property
    def vectors_per_cycle(self) -> float:
        """Multiply-adds on whole vectors that begin in a cycle."""
        return self.fma_per_cycle / self.vector_passes

    @property
    def operations_per_cycle(self) -> int:
        """Operations on whole vectors that begin in a cycle, multiply-adds or others."""
        return self.vector_units or self.fma_per_cycle

    @property
    def parallel_cycles(self) -> float:
        """Work of more cycles than this is done sooner on all threads than on one."""
        return parallel_cycles(self.threads, self.launch_cycles)

    @property
    def wide_words(self) -> bool:
        """Are bytes multiplied as int16, since nothing adds up products of uint8 and int8?"""
        return self.word_instructions > 1 and not self.signed_words

    @property
    def long_products(self) -> bool:
        """Are bytes multiplied to int16, eight at once, for want of dot products?"""
        return self.signed_words and self.word_instructions > 1

    def lanes(self, dtype_bytes: int) -> int:
        """Elements of that size in one vector register."""
        return self.vector_bytes // dtype_bytes

    def registers(self, lanes: int, dtype: str) -> int:
        """Vector registers that hold so many elements of a dtype."""
        return math.ceil(lanes * DTYPE_BYTES[dtype] / self.vector_bytes)


_BFLOAT16_LATENCY = 6
"""Measured on AMD's Zen 4 and Zen 5."""

_AVX512 = Processor(
    "x86-64 AVX-512", 64, 32, 2, 4, 2, 32 << 10, 1 << 20, adds_byte_products=True, separable=True
)
_ZEN4 = replace(_AVX512, name="x86-64 AVX-512 Zen 4", unit_bytes=32)
_INTEL_AVX512 = replace(_AVX512, name="x86-64 AVX-512 Intel", l1_bytes=48 << 10, l1_ways=12, l2_bytes=2 << 20)
_AMX = replace(_INTEL_AVX512, name="x86-64 AMX", word_instructions=1, amx_registers=8)
_AVX2 = replace(
    _AVX512,
    name="x86-64 AVX2",
    vector_bytes=32,
    vector_registers=16,
    l2_bytes=512 << 10,
    prefetch_again=False,
)
"""Measured on AMD's Zen 3: without prefetches direct convolutions of few pixels by many weights take 0.7 to
0.95 of the time, Winograd's 1.1 to 1.4."""
_SSE = Processor("x86-64 SSE", 16, 16, 1, 4, 2, 32 << 10, 256 << 10, separable=True)
_NEON = Processor(
    "aarch64 NEON", 16, 32, 2, 4, 2, 32 << 10, 256 << 10, l1_ways=4, prefetch=False, memory_operands=False
)

_INTEL = (
    "cannonlake",
    "cascadelake",
    "cooperlake",
    "diamondrapids",
    "emeraldrapids",
    "graniterapids",
    "graniterapids-d",
    "icelake-client",
    "icelake-server",
    "rocketlake",
    "sapphirerapids",
    "skylake-avx512",
    "tigerlake",
)
"""LLVM's names of Intel's processors with AVX-512, whose records are not those of AMD's.

Kernels tuned on an AMD Zen 5 are no faster on a Xeon than those of least estimate: its level-2 cache is
larger, what lies behind that slower."""

_HALVED = ("znver4",)
"""LLVM's names of processors with AVX-512 whose units take the halves of vectors one after the other."""


class _ArmCore(NamedTuple):
    """What sets a core apart: fields are those of :class:`Processor`, the caches' sizes in KiB.

    ``in_order``: it executes in order. ``store_unit``: stores take none of the units that multiply and add.
    ``vector_units``: of which one alone multiplies whole vectors.
    """

    fma_per_cycle: int
    fma_latency: int
    loads_per_cycle: int
    l1_kib: int
    l2_kib: int
    cache_bytes_per_cycle: float
    memory_bytes_per_cycle: float
    scheduling_model: str
    in_order: bool = False
    store_unit: bool = False
    vector_units: int = 0
    l1_ways: int = 4

    def processor(self, name: str) -> Processor:
        """The facts of the core that LLVM calls ``name``."""
        return Processor(
            f"aarch64 {name}",
            vector_bytes=16,
            vector_registers=32,
            fma_per_cycle=self.fma_per_cycle,
            fma_latency=self.fma_latency,
            loads_per_cycle=self.loads_per_cycle,
            l1_bytes=self.l1_kib << 10,
            l1_ways=self.l1_ways,
            l2_bytes=self.l2_kib << 10,
            cache_bytes_per_cycle=self.cache_bytes_per_cycle,
            memory_bytes_per_cycle=self.memory_bytes_per_cycle,
            prefetch=False,
            memory_operands=False,
            registers_in_flight=6 if self.in_order else 0,
            scheduling_model=self.scheduling_model,
            store_operations=0 if self.store_unit else 1,
            vector_units=self.vector_units,
        )


_CORES = {
    "cortex-a53": _ArmCore(1, 8, 1, 32, 512, 4.0, 0.5, "cortex-a55", in_order=True, store_unit=True),
    "cortex-a55": _ArmCore(1, 4, 1, 32, 128, 6.0, 0.8, "cortex-a55", in_order=True, store_unit=True),
    "cortex-a72": _ArmCore(
        1, 7, 1, 32, 1024, 6.0, 0.7, "cortex-a72", store_unit=True, vector_units=2, l1_ways=2
    ),
    "cortex-a76": _ArmCore(2, 4, 2, 64, 512, 16.0, 1.3, "neoverse-n1"),
    "cortex-a77": _ArmCore(2, 4, 2, 64, 512, 16.0, 1.5, "neoverse-n1"),
    "cortex-a78": _ArmCore(2, 4, 2, 64, 512, 16.0, 1.7, "neoverse-n1"),
    "cortex-a710": _ArmCore(2, 4, 2, 64, 512, 20.0, 2.0, "neoverse-n2"),
    "cortex-x1": _ArmCore(4, 4, 2, 64, 1024, 20.0, 7.0, "neoverse-v1"),
    "cortex-x2": _ArmCore(4, 4, 2, 64, 1024, 20.0, 8.0, "neoverse-v2"),
    "cortex-x3": _ArmCore(4, 4, 2, 64, 1024, 20.0, 8.0, "neoverse-v2"),
    "neoverse-n1": _ArmCore(2, 4, 2, 64, 1024, 16.0, 3.0, "neoverse-n1"),
    "neoverse-n2": _ArmCore(2, 4, 2, 64, 1024, 20.0, 3.6, "neoverse-n2"),
    "neoverse-v1": _ArmCore(4, 4, 2, 64, 1024, 20.0, 3.8, "neoverse-v1"),
    "neoverse-v2": _ArmCore(4, 4, 2, 64, 2048, 20.0, 4.5, "neoverse-v2"),
    "apple-a14": _ArmCore(4, 4, 2, 128, 4096, 24.0, 4.2, "neoverse-v2", l1_ways=8),
}

ARM_CORES = {name: core.processor(name) for name, core in _CORES.items()}
"""Cores by LLVM's name, from Arm's software optimization guides; an L2 that cores share counts whole.

``scheduling_model`` names another core where LLVM has no model of its own and takes that of an older one: the
Neoverse N1 is the Cortex-A76 for servers, which the A77 and A78 follow, the N2 is the A710, the V1 the X1 and
the V2 the X3, which follows the X2. LLVM's model of the A53 makes its analyser write results back in order,
so that a load behind a multiply-add waits for it, which the core does not; the A55, which follows it, stands
in.
"""


def processor_of(target: Target) -> Processor:
    """The facts of the CPU that ``target`` describes, by the vector extensions it names."""
    attributes = target.attrs
    threads = int(attributes["num-cores"]) if "num-cores" in attributes else 1
    triple = str(attributes["mtriple"]) if "mtriple" in attributes else ""
    cpu = str(attributes["mcpu"]) if "mcpu" in attributes else ""
    features = tuple(str(feature) for feature in attributes["mattr"]) if "mattr" in attributes else ()
    return replace(_family(triple, cpu, features), threads=threads)


@remembered
def _family(triple: str, cpu: str, features: tuple[str, ...]) -> Processor:
    target = Target(
        {
            "kind": "llvm",
            **({"mtriple": triple} if triple else {}),
            **({"mcpu": cpu} if cpu else {}),
            **({"mattr": list(features)} if features else {}),
        }
    )
    if is_aarch64(target):
        core = _with_words(ARM_CORES.get(cpu, _NEON), llvm_cpu_has_features("dotprod", target))
        if llvm_cpu_has_features("bf16", target):
            core = replace(
                core, bfloat16_instructions=1, bfloat16_latency=core.fma_latency, bfloat16_matrices=True
            )
        matrices = bool(llvm_cpu_has_features("i8mm", target))
        return replace(core, signed_words=not matrices, byte_matrices=matrices)
    permutes = bool(llvm_cpu_has_features(["avx512vnni", "avx512vbmi"], target))
    if llvm_cpu_has_features(["avx512vnni", "amx-int8"], target):
        return replace(_AMX, pixel_words=permutes)
    if llvm_cpu_has_features("avx512f", target):
        wide = _INTEL_AVX512 if cpu in _INTEL else _ZEN4 if cpu in _HALVED else _AVX512
        if llvm_cpu_has_features("avx512bf16", target):
            wide = replace(
                wide, bfloat16_instructions=2 if cpu in _INTEL else 1, bfloat16_latency=_BFLOAT16_LATENCY
            )
        worded = _with_words(wide, llvm_cpu_has_features("avx512vnni", target))
        return replace(worded, pixel_words=permutes)
    if llvm_cpu_has_features(["avx2", "fma"], target):
        return _with_words(_AVX2, llvm_cpu_has_features("avxvnni", target))
    return replace(_SSE, adds_byte_products=llvm_cpu_has_features("ssse3", target))


def _with_words(processor: Processor, at_once: bool) -> Processor:
    return replace(processor, word_instructions=1) if at_once else processor
