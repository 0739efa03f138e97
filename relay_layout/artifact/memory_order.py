"""The order in which an array's dimensions lie in memory, read from its strides.

``dim_order`` is that of PyTorch and ExecuTorch: the dimensions from outermost to innermost in memory.
Strides do not always tell: a dimension of one element may have any, so that a 1x1 image lies in NCHW and in
NHWC at once. Whether an array lies in a given order is therefore a question with a definite answer, and which
order it lies in is not; nothing here decides by a guess.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_LETTERS = {3: "NCW", 4: "NCHW", 5: "NCDHW"}


def lies_in(shape: Sequence[int], strides: Sequence[int], order: Sequence[int], step: int) -> bool:
    """Whether elements that far apart fill one block of memory in ``order`` without gaps.

    ``strides`` and ``step``, the distance of neighbours, are in the same unit. True for no elements.
    """
    if 0 in shape:
        return True
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def follows(shape: Sequence[int], strides: Sequence[int], order: Sequence[int], step: int) -> bool:
    """Whether elements in ``order`` are ever further in memory, with or without gaps, as those of a slice.

    Units are those of :func:`lies_in`. True for no elements.
    """
    if 0 in shape:
        return True
    last = 0
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] < last + step:
                return False
            last += strides[axis] * (shape[axis] - 1)
    return True


def channels_last(rank: int) -> tuple[int, ...]:
    """The order of PyTorch's channels_last and channels_last_3d; of NWC for three dimensions."""
    return (0, *range(2, rank), 1)


def dim_order_of(shape: Sequence[int], strides: Sequence[int], step: int = 1) -> tuple[int, ...] | None:
    """An order that fits the strides; None where they leave gaps, overlap or run backwards.

    Of several that fit, the plain order comes first, channels last second.
    """
    rank = len(shape)
    plain = tuple(range(rank))
    by_stride = tuple(sorted(plain, key=lambda axis: (-strides[axis], axis)))
    for order in (plain, *([channels_last(rank)] if rank > 2 else []), by_stride):
        if lies_in(shape, strides, order, step):
            return order
    # Dimensions of one element sort anywhere by stride; the others alone decide.
    long = [axis for axis in by_stride if shape[axis] != 1]
    order = (*(axis for axis in plain if shape[axis] == 1), *long)
    return order if lies_in(shape, strides, order, step) else None


def dim_order_with_gaps(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """As :func:`dim_order_of`, or the order of what lies in one but for gaps, as a slice does."""
    order = dim_order_of(shape, strides)
    if order is not None:
        return order
    plain = range(len(shape))
    single = [axis for axis in plain if shape[axis] == 1]
    long = sorted((axis for axis in plain if shape[axis] != 1), key=lambda axis: -strides[axis])
    order = (*single, *long)
    return order if follows(shape, strides, order, 1) else None


def show_order(order: Sequence[int]) -> str:
    """An order for people, with its usual name where it has one: ``(0, 2, 3, 1), NHWC``."""
    text = f"({', '.join(map(str, order))})"
    letters = _LETTERS.get(len(order))
    if letters is None or tuple(order) not in (tuple(range(len(order))), channels_last(len(order))):
        return text
    return f"{text}, {''.join(letters[axis] for axis in order)}"


def show_memory(array: Array) -> str:
    """How an array lies in memory, for a message."""
    order = dim_order_of(array.shape, array.strides, array.itemsize)
    if order is not None:
        return f"in dim_order {show_order(order)}"
    strides = [stride // array.itemsize for stride in array.strides]
    order = dim_order_with_gaps(array.shape, strides)
    if order is not None:
        return f"in dim_order {show_order(order)}, with gaps"
    counts = ", ".join(map(str, strides))
    return f"with strides ({counts}), which is no order of dimensions"


def how_to_order(order: Sequence[int]) -> str:
    """Python that brings an array ``x``, or a tensor of PyTorch, into an order."""
    plain = list(range(len(order)))
    if list(order) == plain:
        return "numpy.ascontiguousarray(x) or torch's x.contiguous()"
    back = [list(order).index(axis) for axis in plain]
    forth = ", ".join(map(str, order))
    text = f"numpy.ascontiguousarray(x.transpose({forth})).transpose({', '.join(map(str, back))})"
    formats = {4: "channels_last", 5: "channels_last_3d"}
    if tuple(order) == channels_last(len(order)) and len(order) in formats:
        text += f" or torch's x.contiguous(memory_format=torch.{formats[len(order)]})"
    return text
