"""What the sweeps of random graphs share: seeds in chunks, and the reproducers of those that fail."""

from collections.abc import Callable


def chunks(seeds: range, size: int) -> list[range]:
    """Ranges of ``size`` seeds, in order."""
    return [seeds[first : first + size] for first in range(0, len(seeds), size)]


def failures(fuzzed: Callable[[int], str | None], seeds: range) -> list[str]:
    """What ``fuzzed`` says of the seeds that fail; it gives None for the others."""
    return [message for message in map(fuzzed, seeds) if message is not None]
