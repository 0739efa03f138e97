"""A kernel that was chosen for a workload."""

from dataclasses import dataclass
from typing import Any, Literal

Source = Literal["tuned", "modelled", "default"]
"""Where knobs come from: measured, found by a model, or estimated."""


@dataclass(frozen=True)
class KernelChoice:
    """Knobs for a workload, where they come from, and the microseconds they take, measured or estimated."""

    knobs: Any
    source: Source
    microseconds: float
