"""What the sweeps of random graphs share: seeds in chunks, and the reproducers of those that fail."""

from collections.abc import Callable
from typing import Any

_LONGEST = 300
"""Characters of an error that are shown."""


def chunks(seeds: range, size: int) -> list[range]:
    """Ranges of ``size`` seeds, in order."""
    return [seeds[first : first + size] for first in range(0, len(seeds), size)]


def failures(fuzzed: Callable[[int], str | None], seeds: range) -> list[str]:
    """What ``fuzzed`` says of the seeds that fail; it gives None for the others."""
    return [message for message in map(fuzzed, seeds) if message is not None]


def failure(module: str, check: Callable[..., Any], *arguments: Any) -> str | None:
    """The call of a module's ``check`` that fails, with what it raises; None if it does not fail."""
    try:
        check(*arguments)
    except Exception as error:
        called = f"{module}.check({', '.join(map(repr, arguments))})"
        return f"{called}: {type(error).__name__}: {' '.join(str(error).split())[:_LONGEST]}"
    return None


def smallest_failure(
    module: str, check: Callable[..., Any], seed: int, steps: int, *others: Any
) -> str | None:
    """As :func:`failure`, of a graph of so many steps, cut down to the smallest beginning that fails."""
    whole = failure(module, check, seed, steps, *others)
    if whole is None:
        return None
    beginnings = (failure(module, check, seed, fewer, *others) for fewer in range(1, steps))
    return next(filter(None, beginnings), whole)
