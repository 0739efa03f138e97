"""From a converted module to scheduled loops: our computes, fusion, our schedules."""

from relay_layout.lower.passes import lower_passes, pipeline

__all__ = ["lower_passes", "pipeline"]
