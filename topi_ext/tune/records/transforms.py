"""What layout transforms take, from those that were measured."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from topi_ext.tune.records.record import TransformRecord
from topi_ext.workload import TransformWorkload

_LEAST_SIZES = 2
"""Different sizes that a line goes through at least."""

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
    a line over the number of elements, ``start + each * elements`` with neither below 0, that has the least
    sum of squared relative errors over the measured ones.
    """

    def __init__(self, records: Iterable[TransformRecord] = ()) -> None:
        self._measured = {record.workload: record.cost * 1e6 for record in records if record.seconds}
        self._lines: dict[Pair, tuple[float, float] | None] = {}

    def __len__(self) -> int:
        return len(self._measured)

    def time(self, workload: TransformWorkload) -> TransformTime | None:
        """None where nothing on record says."""
        if workload in self._measured:
            return TransformTime(self._measured[workload], "measured")
        pair = _pair(workload)
        if pair not in self._lines:
            self._lines[pair] = self._line(pair)
        line = self._lines[pair]
        if line is None:
            return None
        start, each = line
        return TransformTime(start + each * workload.elements, "fitted")

    def _line(self, pair: Pair) -> tuple[float, float] | None:
        points = [
            (workload.elements, microseconds)
            for workload, microseconds in self._measured.items()
            if _pair(workload) == pair
        ]
        if len({elements for elements, _ in points}) < _LEAST_SIZES:
            return None
        elements, times = np.array(points, dtype=np.float64).T
        largest = elements.max()
        # Errors are relative: otherwise the largest tensor alone would decide.
        start, each = _least_squares(np.stack([1.0 / times, elements / largest / times], axis=1))
        return start, each / largest


def _least_squares(columns: np.ndarray) -> tuple[float, float]:
    """What to multiply two columns with, by nothing negative, so that their sums come closest to ones.

    The columns [n, 2] are of positive numbers. What ``scipy.optimize.nnls`` does, without its package, which
    takes as long to import as many networks to plan.
    """
    ones = np.ones(len(columns))
    both = np.linalg.lstsq(columns, ones, rcond=None)[0]
    if both.min() >= 0.0:
        return float(both[0]), float(both[1])
    # The least is where one of them is zero.
    sums, squares = columns.sum(axis=0), (columns**2).sum(axis=0)
    best = int(np.argmax(sums**2 / squares))
    alone = float(sums[best] / squares[best])
    return (alone, 0.0) if best == 0 else (0.0, alone)


def _pair(workload: TransformWorkload) -> Pair:
    return workload.axes, workload.source_layout, workload.target_layout, workload.dtype


__all__ = ["TransformTime", "TransformTimes"]
