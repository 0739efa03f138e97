"""What a definition of a built-in network is asked for."""

from dataclasses import dataclass

CHANNEL_MULTIPLE = 8


@dataclass(frozen=True)
class Options:
    """The number of classes, and the share of the published channels that each layer gets."""

    classes: int
    width: float

    def channels(self, published: int) -> int:
        """The published number of channels scaled, rounded to the nearest multiple of 8, at least 8."""
        scaled = int(published * self.width + CHANNEL_MULTIPLE / 2) // CHANNEL_MULTIPLE * CHANNEL_MULTIPLE
        return max(CHANNEL_MULTIPLE, scaled)
