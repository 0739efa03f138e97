"""Whether a constant of the converted function holds an original one, rearranged."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relay_layout.graph import Value
from relay_layout.ir import constant_array
from relay_layout.verify.digits import Dims, covers, plain, shape_of_dims
from relay_layout.verify.symbols import extents

LARGEST_PART, SMALLEST_PART = 1 << 18, 1 << 12
"""Elements compared at once, and what is not worth comparing by itself."""


class Contents:
    """Comparisons of constants, each made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], bool] = {}

    def same(
        self, original: Value, steps: Sequence[Dims], converted: Value, converted_steps: Sequence[Dims]
    ) -> bool:
        """Whether the converted constant, rearranged, is the original, rearranged.

        Steps are made one after the other: the first over the dimensions of the constant, each other over
        those that the one before gives.
        """
        key = (original, *steps, converted, *converted_steps)
        if key not in self._known:
            self._known[key] = _same(original, steps, converted, converted_steps)
        return self._known[key]


def _same(original: Value, steps: Sequence[Dims], converted: Value, converted_steps: Sequence[Dims]) -> bool:
    if original.dtype != converted.dtype or original.constant is None or converted.constant is None:
        return False
    if original.constant.same_as(converted.constant) and list(steps) == list(converted_steps):
        return True
    if not _cover(original, steps) or not _cover(converted, converted_steps):
        return False
    left = _bits(constant_array(original.constant))
    right = _bits(constant_array(converted.constant))
    if left.size != right.size:
        return False
    arranged = rearranged(left, steps)
    if list(converted_steps) == [plain(extents(converted.shape or ()))]:
        return _equal(arranged, right.reshape(arranged.shape))
    return _equal(arranged.reshape(-1), rearranged(right, converted_steps).reshape(-1))


def _cover(value: Value, steps: Sequence[Dims]) -> bool:
    shape = extents(value.shape or ())
    for dims in steps:
        if not covers(dims, shape):
            return False
        shape = shape_of_dims(dims)
    return True


def rearranged(array: np.ndarray[Any, Any], steps: Sequence[Dims]) -> np.ndarray[Any, Any]:
    """The array through steps as of :meth:`Contents.same`; the digits of the last one are its dimensions."""
    for dims in steps[:-1]:
        array = _arranged(array, dims).reshape([int(str(extent)) for extent in shape_of_dims(dims)])
    return _arranged(array, steps[-1])


def _equal(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """In parts small enough that what is compared stays in the cache."""
    if left.size > LARGEST_PART and len(left) > 1 and left[0].size >= SMALLEST_PART:
        return all(_equal(one, other) for one, other in zip(left, right, strict=True))
    return bool(np.array_equal(left, right))


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floating-point numbers by their bits, so that NaN equals itself and 0 is not -0."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array


def _arranged(array: np.ndarray[Any, Any], dims: Dims) -> np.ndarray[Any, Any]:
    """A view of the array whose dimensions are the digits of ``dims`` in order."""
    digits = [digit for dim in dims for digit in dim]
    # Constants have known extents.
    units = [digit.unit if isinstance(digit.unit, int) else 0 for digit in digits]
    lengths = [digit.extent if isinstance(digit.extent, int) else 0 for digit in digits]
    order = sorted(range(len(digits)), key=lambda place: (digits[place].axis, -units[place]))
    split = array.reshape([lengths[place] for place in order])
    return split.transpose(np.argsort(order)) if order else split
