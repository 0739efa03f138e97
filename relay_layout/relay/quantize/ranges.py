"""Ranges of tensors: how much of them there is to be seen, and which part of it 8 bits keep best."""

from dataclasses import dataclass, field

import numpy as np

BINS = 2048
"""Bins of a histogram. Powers of two, so that two neighbours become one when the range doubles."""

_CANDIDATES = 128
"""How many ranges are compared, from the whole one down."""


@dataclass(frozen=True)
class Range:
    """``real = (integer - zero_point) * scale``, for integers from ``low`` to ``high``."""

    scale: float
    zero_point: int
    low: int
    high: int


@dataclass
class Histogram:
    """Counts of the magnitudes of a tensor's elements, and whether any was negative."""

    limit: float = 0.0
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS))
    is_signed: bool = False

    def add(self, values: np.ndarray) -> None:
        """Count more elements. ValueError for infinities and what is no number."""
        if not values.size:
            return
        magnitudes = np.abs(values.astype("float64", copy=False)).ravel()
        largest = float(magnitudes.max())
        if not np.isfinite(largest):
            raise ValueError("there is an element that is no finite number")
        self.is_signed |= bool((values < 0).any())
        if self.limit == 0:
            self.limit = largest
        while self.limit < largest:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([pairs, np.zeros(BINS // 2)])
            self.limit *= 2
        if self.limit:
            self.counts += np.histogram(magnitudes, BINS, (0.0, self.limit))[0]

    def best_range(self, bits: int) -> Range:
        """The range of integers of so many bits that loses the least: the sum of squared differences
        between elements and what they become.

        Tensors that are never negative use all integers for what is not.
        """
        threshold = self._threshold(2 ** (bits - 1) - 1 if self.is_signed else 2**bits - 1)
        return symmetric_range(threshold, bits) if self.is_signed else positive_range(threshold, bits)

    def _threshold(self, steps: int) -> float:
        used = np.flatnonzero(self.counts)
        if not used.size or self.limit == 0:
            return 1.0
        width = self.limit / BINS
        middles = (np.arange(BINS) + 0.5) * width
        # An edge past the last bin in use, so that nothing is cut off by the whole range.
        largest = (used[-1] + 1) * width
        thresholds = largest * (np.arange(_CANDIDATES) + 1) / _CANDIDATES
        scales = thresholds[:, None] / steps
        kept = np.minimum(np.rint(middles / scales), steps) * scales
        losses = ((kept - middles) ** 2 * self.counts).sum(axis=1)
        return float(thresholds[int(np.argmin(losses))])


def symmetric_range(threshold: float, bits: int) -> Range:
    """Integers around 0, the largest of which is ``threshold``."""
    high = 2 ** (bits - 1) - 1
    return Range(threshold / high, 0, -high, high)


def positive_range(threshold: float, bits: int) -> Range:
    """Integers whose lowest is 0 and whose largest is ``threshold``."""
    low = -(2 ** (bits - 1))
    return Range(threshold / (2**bits - 1), low, low, -low - 1)
