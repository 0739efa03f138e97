"""Facts about families of targets: layouts with kernels, and rates for cost estimates."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetFacts:
    """The layouts that a family of targets has kernels for, and the rates by which costs are estimated."""

    name: str
    channel_blocks: tuple[int, ...]
    """Sizes n of NCHW{n}c worth offering, best first."""

    gigahertz: float
    """The clock that turns cycles into time."""

    gigabytes_per_second: float
    """The bandwidth of reading or writing activations that are in the last-level cache."""

    launch_us: float
    """Microseconds to launch one kernel."""

    strided_window_penalty: float
    """The factor on poolings whose windows run along the innermost dimension."""

    channels_last_penalty: float
    """The share that NHWC data, and an NHWC result, each add to the time of a convolution: pixels are
    often a power of two of bytes apart, and so map to few cache sets."""

    def moving_us(self, moved: float) -> float:
        """Microseconds to read or write ``moved`` bytes once."""
        return moved / (self.gigabytes_per_second * 1e3)


X86_AVX512 = TargetFacts("x86 AVX-512", (16, 8), 3.0, 40.0, 2.0, 3.0, 0.01)
X86_AVX2 = TargetFacts("x86 AVX2", (8, 16), 3.0, 30.0, 2.0, 3.0, 0.01)
X86_SSE = TargetFacts("x86 SSE", (4, 8), 3.0, 20.0, 2.0, 3.0, 0.01)
AARCH64 = TargetFacts("aarch64 NEON", (8, 4), 2.0, 10.0, 4.0, 4.0, 0.01)
