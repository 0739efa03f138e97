"""Parameters of a network: named arrays that are either given or made from a seed when asked for.

A parameter that is made from a seed holds no array, so a network of any size can be described, counted
and shape-checked without memory for its weights.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Source(Protocol):
    """Something that yields a parameter's values."""

    def values(self, shape: tuple[int, ...]) -> Array:
        """A C-contiguous float32 array of ``shape``; the same one each time."""


@dataclass(frozen=True)
class Normal:
    """Normally distributed values; ``seed`` is the entropy of numpy's default generator."""

    mean: float
    deviation: float
    seed: tuple[int, ...]

    def values(self, shape: tuple[int, ...]) -> Array:
        """A float32 array of ``shape``."""
        drawn = np.random.default_rng(self.seed).standard_normal(shape, dtype=np.float32)
        # In place: the largest weight of VGG-16 alone is 411 MB.
        drawn *= np.float32(self.deviation)
        drawn += np.float32(self.mean)
        return drawn


@dataclass(frozen=True)
class Uniform:
    """Values spread evenly over [low, high); ``seed`` is the entropy of numpy's default generator."""

    low: float
    high: float
    seed: tuple[int, ...]

    def values(self, shape: tuple[int, ...]) -> Array:
        """A float32 array of ``shape``."""
        drawn = np.random.default_rng(self.seed).random(shape, dtype=np.float32)
        drawn *= np.float32(self.high - self.low)
        drawn += np.float32(self.low)
        return drawn


@dataclass(frozen=True, eq=False)
class Given:
    """Values that exist already, such as trained ones."""

    array: Array

    def values(self, shape: tuple[int, ...]) -> Array:
        """The given array, which must have this ``shape``."""
        assert self.array.shape == shape
        return self.array


@dataclass(frozen=True)
class Parameter:
    """One weight, bias or statistic. ``trainable`` is false for batch normalization's running statistics."""

    name: str
    shape: tuple[int, ...]
    source: Source
    trainable: bool = True

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def values(self) -> Array:
        """The float32 array of this parameter's shape; made anew at each call unless it was given."""
        return self.source.values(self.shape)
