"""What is known of NVIDIA's multiprocessors, as data.

Limits per multiprocessor are those of the CUDA programming guide, section "Compute Capabilities". Clocks,
numbers of multiprocessors, bandwidths and rates are those of one board per architecture, which ``board``
names, by NVIDIA's white papers of V100, Turing, A100, GA102, Ada and H100, and the data sheets of T4, A10 and
L4. Other boards of an architecture differ in count, clock and bandwidth: sm_90 is the H100 as SXM5 module
(132 multiprocessors, 3.35 TB/s; the H200 is the same with 4.8 TB/s), not the PCIe board (114, 2 TB/s). Clocks
are boost clocks; that of H100 is the one of its tensor cores' published peak, where float32's is 1.98 GHz.

The second-level cache of V100 gives 2048 bytes in a cycle and that of A100 5120 (A100's white paper). Of the
others nothing is published: those are estimates. What an H100 makes of mma.sync, what its second-level cache
gives, and what a kernel takes beside its work are fitted to kernels that it ran.
"""

from dataclasses import dataclass

from tvm.target import Target

from topi_ext.cuda.stacked import Count, greatest, least
from topi_ext.errors import CudaError

LANES = 32
"""Threads of a warp."""

SCHEDULERS = 4
"""In a multiprocessor; each issues a warp's instruction per cycle and has a quarter of the registers."""

MOST_BLOCKS = 65535
"""The most blocks of a grid along its second and third axis; no tensor has enough for the first."""


@dataclass(frozen=True)
class Multiprocessor:
    """One architecture, as schedules and their cost model see it; sizes in bytes.

    The rates ``..._macs`` are multiply-adds per cycle and multiprocessor, 0 without such an instruction.
    """

    arch: str
    board: str
    count: int
    gigahertz: float
    gigabytes_per_second: float
    shared_bytes: int
    """Shared memory of a multiprocessor."""

    block_shared_bytes: int
    """The most shared memory of one block of threads; the system reserves the rest, if any, per block."""

    warps: int
    blocks: int
    half_macs: int
    """Multiply-adds of float16 on tensor cores, by warp-wide instructions with float32 accumulators."""

    tf32_macs: int
    byte_macs: int
    """Multiply-adds of bytes; on sm_70 by dp4a on CUDA cores."""

    float_macs: int
    """Multiply-adds of float32 on CUDA cores."""

    l2_bytes_per_cycle: int
    """Per multiprocessor."""

    registers: int = 65536
    launch_us: float = 2.5
    """Microseconds that a kernel takes besides its work."""

    wgmma_gain: float = 0.0
    """The factor by which wgmma multiplies faster; 0 where it does not exist or must not be used."""

    has_bulk_copies: bool = False
    """May the tensor memory accelerator, which copies whole tiles, be used?"""

    @property
    def name(self) -> str:
        """The name under which tuning records are kept."""
        return self.arch

    @property
    def threads(self) -> int:
        """Threads of the host: one launches all kernels."""
        return 1

    @property
    def macs(self) -> dict[str, int]:
        """Multiply-adds per cycle and multiprocessor, by what is multiplied."""
        return {
            "float16": self.half_macs,
            "tf32": self.tf32_macs,
            "float32": self.float_macs,
            "uint8": self.byte_macs,
            "int8": self.byte_macs,
        }

    def products(self, dtype: str, instruction: str) -> float:
        """Multiply-adds per cycle and multiprocessor of a dtype by one of its instructions."""
        return self.macs[dtype] * (self.wgmma_gain if instruction == "wgmma" else 1.0)

    def resident(self, shared: Count, registers: Count, warps: Count) -> Count:
        """Blocks of ``warps`` that one multiprocessor holds at once, each with so many bytes of shared
        memory, and so many registers a thread; 1 at least.
        """
        kept = shared + self.shared_bytes - self.block_shared_bytes
        # A warp has registers in steps of 256, all of one scheduler's.
        step = 256 // LANES
        of_warp = -(-registers // step) * step * LANES
        by_registers = self.registers // SCHEDULERS // of_warp * SCHEDULERS // warps
        by_shared = self.shared_bytes // greatest(kept, 1)
        return greatest(1, least(self.blocks, self.warps // warps, by_shared, by_registers))

    @property
    def has_async_copies(self) -> bool:
        """Copies from global to shared memory that do not pass through registers (cp.async)."""
        return self.capability >= 80

    @property
    def has_dependent_launch(self) -> bool:
        """Kernels can be launched while the one before them still runs, and wait for it on their own."""
        return self.capability >= 90

    @property
    def capability(self) -> int:
        return int(self.arch.removeprefix("sm_"))

    def target(self) -> Target:
        """What TVM compiles for; the host is this machine."""
        return Target({"kind": "cuda", "arch": self.arch}, host={"kind": "llvm"})


MULTIPROCESSORS = {
    found.arch: found
    for found in (
        Multiprocessor("sm_70", "V100 SXM2", 80, 1.53, 900, 96 << 10, 96 << 10, 64, 32, 512, 0, 256, 64, 26),
        Multiprocessor("sm_75", "T4", 40, 1.59, 320, 64 << 10, 64 << 10, 32, 16, 512, 0, 1024, 64, 26),
        Multiprocessor(
            "sm_80", "A100 SXM4 40 GB", 108, 1.41, 1555, 164 << 10, 163 << 10, 64, 32, 1024, 512, 2048, 64, 47
        ),
        Multiprocessor("sm_86", "A10", 72, 1.695, 600, 100 << 10, 99 << 10, 48, 16, 512, 256, 1024, 128, 32),
        Multiprocessor("sm_89", "L4", 58, 2.04, 300, 100 << 10, 99 << 10, 48, 24, 512, 256, 1024, 128, 40),
        Multiprocessor(
            "sm_90",
            "H100 SXM5",
            132,
            1.83,
            3350,
            228 << 10,
            227 << 10,
            64,
            32,
            860,
            430,
            1720,
            128,
            64,
            launch_us=0.93,
            wgmma_gain=2048 / 860,
            has_bulk_copies=True,
        ),
    )
}


def multiprocessor_of(target: Target) -> Multiprocessor:
    """The facts of the architecture that a CUDA target names; CudaError for one that is not known."""
    arch = str(target.attrs["arch"]) if "arch" in target.attrs else ""
    found = MULTIPROCESSORS.get(arch)
    if found is None:
        raise CudaError(f"CUDA architecture {arch!r} is not known; use one of {', '.join(MULTIPROCESSORS)}")
    return found
