"""Phases of a transposed convolution, as a convolution makes them: stacked as output channels."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

PHASES = "topi_ext.phases"
"""Block annotation of what moves phases into place: :meth:`StackedPhases.numbers`."""


@dataclass(frozen=True)
class PhasesAlong:
    """One spatial axis: element ``j`` of phase ``r`` is element ``j * stride + r - skipped`` of the result.

    At place ``w`` of the window, phase ``r`` has tap ``first + r - w * stride`` of ``taps``, or none.
    """

    stride: int
    skipped: int
    taps: int
    first: int

    def numbers(self) -> list[int]:
        """The fields of this class, in order."""
        return [getattr(self, field.name) for field in fields(PhasesAlong)]

    def tap(self, phase: Any, place: Any) -> Any:
        """The tap of a phase at a place of the window; below 0, or not below ``taps``, where it has none."""
        return self.first + phase - place * self.stride

    def lacks_taps(self, window: int) -> bool:
        """Does any phase have no tap at some place of the window?"""
        return self.stride * window != self.taps


@dataclass(frozen=True)
class StackedPhases:
    """Phases as output channels: of each, ``channels`` of them; phases of the last of ``axes`` alternate
    fastest.
    """

    channels: int
    axes: Sequence[PhasesAlong]

    def numbers(self) -> list[int]:
        """As an annotation holds it: the channels, then the fields of each axis."""
        return [self.channels, *(number for axis in self.axes for number in axis.numbers())]

    def share_of_taps(self, window: Sequence[int]) -> float:
        """The share of the taps that a window has for all phases which phases really have."""
        sizes = zip(self.axes, window, strict=True)
        return prod(axis.taps / (axis.stride * size) for axis, size in sizes)

    @staticmethod
    def of(numbers: Sequence[Any]) -> "StackedPhases":
        """The inverse of :meth:`numbers`."""
        channels, *along = map(int, numbers)
        size = len(fields(PhasesAlong))
        axes = (PhasesAlong(*along[at : at + size]) for at in range(0, len(along), size))
        return StackedPhases(channels, tuple(axes))
