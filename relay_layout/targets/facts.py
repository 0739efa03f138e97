"""What is known of each family of targets, as data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetFacts:
    """Layouts a family's kernels exist for, and the rates its costs are estimated with.

    ``channel_blocks``: sizes of the channel block of NCHW{n}c worth offering, best first.
    ``gigahertz``: clock that turns cycles into time. ``gigabytes_per_second``: bandwidth of one
    pass over activations that are in the last-level cache. ``launch_us``: entering one kernel.
    ``strided_window_penalty``: how much slower pooling is where channels are not innermost.
    ``channels_last_penalty``: share that each NHWC side adds to a convolution, whose pixels then lie a
    power of two apart and meet in few cache sets.
    """

    name: str
    channel_blocks: tuple[int, ...]
    gigahertz: float
    gigabytes_per_second: float
    launch_us: float
    strided_window_penalty: float
    channels_last_penalty: float

    def moving_us(self, moved: float) -> float:
        """Microseconds in which ``moved`` bytes are read or written, each once."""
        return moved / (self.gigabytes_per_second * 1e3)


X86_AVX512 = TargetFacts("x86 AVX-512", (16, 8), 3.0, 40.0, 2.0, 8.0, 0.01)
X86_AVX2 = TargetFacts("x86 AVX2", (8, 16), 3.0, 30.0, 2.0, 6.0, 0.01)
X86_SSE = TargetFacts("x86 SSE", (4, 8), 3.0, 20.0, 2.0, 4.0, 0.01)
AARCH64 = TargetFacts("aarch64 NEON", (8, 4), 2.0, 10.0, 4.0, 4.0, 0.01)
