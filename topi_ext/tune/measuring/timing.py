"""How kernels are timed, and for how long they may be built and run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """How a kernel is timed: ``repeats`` times, each of calls that take ``min_repeat_ms`` together.

    ``build_timeout`` and ``run_timeout`` are the seconds that building and running one may take.
    """

    repeats: int = 3
    min_repeat_ms: int = 30
    build_timeout: float = 30.0
    run_timeout: float = 20.0


USUAL = Timing()
"""On a CPU."""

USUAL_OF_GPUS = Timing(min_repeat_ms=10, build_timeout=120.0)
"""nvcc takes seconds for a kernel."""


def too_long(what: str, seconds: float) -> str:
    """What is said of a kernel that has taken more than its ``seconds``; ``what``: "build" or "run"."""
    return f"{what}: longer than {seconds:.0f} s"
