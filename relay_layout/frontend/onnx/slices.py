"""Which elements a Slice picks of an axis of known extent."""

from collections.abc import Sequence

from relay_layout.frontend.values import Array


def picked(start: int, end: int, step: int, extent: int) -> slice:
    """Those from ``start`` to ``end``, as Python slices an axis of this extent.

    What goes back from before the first element begins with the first in ONNX, and picks nothing in Python.
    """
    return slice(max(start, -extent) if step < 0 else start, end, step)


def sliced(
    data: Array, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Array:
    """The elements of an array; without axes these are the first, and steps are 1 where there are none.

    ValueError or IndexError where these do not fit.
    """
    places = [slice(None)] * data.ndim
    for start, end, axis, step in zip(
        starts, ends, axes or range(len(starts)), steps or [1] * len(starts), strict=True
    ):
        places[axis] = picked(start, end, step, data.shape[axis])
    part: Array = data[tuple(places)]
    return part
