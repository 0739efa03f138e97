"""What layout transforms take, from those that were measured."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from topi_ext.tune.records.record import TransformRecord
from topi_ext.workloads.transform import TransformWorkload

_LEAST_SIZES = 2
"""Different sizes that a curve goes through at least."""

Pair = tuple[str, str, str, str]
"""Axes, both layouts and the data type: transforms that differ in their extents alone."""


@dataclass(frozen=True)
class TransformTime:
    """Microseconds of a transform: as "measured", or "fitted" to measured ones of other extents."""

    microseconds: float
    source: Literal["measured", "fitted"]


class TransformTimes:
    """Times of layout transforms on one processor.

    A transform on record takes what was measured. Of others between the same two layouts the time is read off
    a curve over the number of elements, which bends where tensors outgrow a cache: straight on scales of
    ratios between sizes that were measured, and in proportion to the size beyond them.
    """

    def __init__(self, records: Iterable[TransformRecord] = ()) -> None:
        self._measured = {record.workload: record.cost * 1e6 for record in records if record.seconds}
        self._curves: dict[Pair, _Curve | None] = {}

    def __len__(self) -> int:
        return len(self._measured)

    def time(self, workload: TransformWorkload) -> TransformTime | None:
        """None where nothing on record says."""
        if workload in self._measured:
            return TransformTime(self._measured[workload], "measured")
        pair = _pair(workload)
        if pair not in self._curves:
            self._curves[pair] = self._curve(pair)
        curve = self._curves[pair]
        return None if curve is None else TransformTime(curve.at(workload.elements), "fitted")

    def _curve(self, pair: Pair) -> "_Curve | None":
        points = [
            (workload.elements, microseconds)
            for workload, microseconds in self._measured.items()
            if _pair(workload) == pair
        ]
        return _Curve(points) if len({elements for elements, _ in points}) >= _LEAST_SIZES else None


class _Curve:
    """Times that grow with the size, as close to measured ones as such can be.

    Where a larger tensor was measured to be the faster, for its rows lie better in the caches, both take the
    geometric mean: the least sum of squared differences of logarithms among times that never fall (pool
    adjacent violators; Ayer et al., Annals of Mathematical Statistics, 1955).
    """

    def __init__(self, points: Iterable[tuple[int, float]]) -> None:
        pools: list[tuple[float, list[float]]] = []
        for elements, microseconds in sorted(points):
            mean, sizes = math.log(microseconds), [math.log(elements)]
            while pools and pools[-1][0] >= mean:
                before, smaller = pools.pop()
                mean = (before * len(smaller) + mean * len(sizes)) / (len(smaller) + len(sizes))
                sizes = smaller + sizes
            pools.append((mean, sizes))
        self._sizes = [size for _, sizes in pools for size in sizes]
        self._times = [mean for mean, sizes in pools for _ in sizes]

    def at(self, elements: int) -> float:
        """Microseconds for a tensor of that many elements."""
        size = math.log(elements)
        within = min(max(size, self._sizes[0]), self._sizes[-1])
        return math.exp(float(np.interp(within, self._sizes, self._times)) + size - within)


def _pair(workload: TransformWorkload) -> Pair:
    return workload.axes, workload.source_layout, workload.target_layout, workload.dtype
