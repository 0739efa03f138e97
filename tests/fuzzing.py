"""What the sweeps of random graphs share: seeds in chunks, and the reproducers of those that fail."""

from collections.abc import Callable, Mapping
from typing import Any


def chunks(seeds: range, size: int) -> list[range]:
    """Ranges of ``size`` seeds, in order."""
    return [seeds[first : first + size] for first in range(0, len(seeds), size)]


def failures(fuzzed: Callable[[int], str | None], seeds: range) -> list[str]:
    """What ``fuzzed`` says of the seeds that fail; it gives None for the others."""
    return [message for message in map(fuzzed, seeds) if message is not None]


def outcome(check: Callable[[int], Any], seed: int) -> str | None:
    """The reproducer of a graph that fails, None if it does not."""
    try:
        check(seed)
    except Exception as error:
        place = f"{check.__module__}.{check.__name__}({seed})"
        return f"{place}: {type(error).__name__}: {str(error).strip()}"
    return None


def add_constants(model: Any, constants: Mapping[str, Any]) -> None:
    """Give an ONNX model its initializers, by name."""
    from onnx import numpy_helper

    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
