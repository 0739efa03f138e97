"""What callers of tuning choose."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class TuneOptions:
    """How to tune.

    ``trials`` is the most kernels to measure for one task, those in the log included. A task ends early
    where ``patience`` trials have not made it 1% faster. ``time_limit`` is in seconds for all tasks; after
    ``total_trials`` measurements of all, the best are confirmed and no others tried. Without ``winograd``
    only kernels that round like the direct convolution are tried.
    """

    trials: int = 64
    patience: int = 32
    batch: int = 8
    strategy: str = "model"
    seed: int = 0
    time_limit: float = inf
    winograd: bool = True
    total_trials: float = inf


DEFAULT_OPTIONS = TuneOptions()
