"""Convolutions and poolings in plain numpy, from their definitions; data is [N, C, spatial...]."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np


def axes(array: np.ndarray, source: str, target: str) -> np.ndarray:
    """The array transposed from one plain layout to another."""
    return np.ascontiguousarray(array.transpose([source.index(letter) for letter in target]))


def _at(*index: Any) -> Any:
    """An index of several parts."""
    return index


def _padded(data: np.ndarray, padding: Sequence[int], value: float) -> np.ndarray:
    rank = data.ndim - 2
    pairs = [(0, 0), (0, 0), *zip(padding[:rank], padding[rank:], strict=True)]
    return np.pad(data, pairs, constant_values=value)


def _counts(
    shape: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list:
    return [
        (size - (k - 1) * d - 1) // s + 1
        for size, k, s, d in zip(shape, kernel, strides, dilation, strict=True)
    ]


def _taps(
    kernel: Sequence[int], counts: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each position in the window, and the slices of what all windows see there."""
    for tap in product(*(range(size) for size in kernel)):
        starts = [t * d for t, d in zip(tap, dilation, strict=True)]
        yield (
            tap,
            tuple(
                slice(start, start + (count - 1) * stride + 1, stride)
                for start, count, stride in zip(starts, counts, strides, strict=True)
            ),
        )


def convolve(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> np.ndarray:
    """Weight [O, C / groups, spatial...]; padding has what is before each axis, then what is after each."""
    image = _padded(data.astype("float64"), padding, 0)
    counts = _counts(image.shape[2:], weight.shape[2:], strides, dilation)
    result = np.zeros((data.shape[0], weight.shape[0], *counts))
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    for tap, seen in _taps(weight.shape[2:], counts, strides, dilation):
        for group in range(groups):
            part = image[_at(slice(None), slice(group * inputs, (group + 1) * inputs), *seen)]
            rows = slice(group * outputs, (group + 1) * outputs)
            matrix = weight[_at(rows, slice(None), *tap)].astype("float64")
            result[:, rows] += np.einsum("oi,ni...->no...", matrix, part)
    return result


def convolve_transposed(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int = 1,
) -> np.ndarray:
    """Weight [C, O / groups, spatial...]: each element adds its multiple of the weight to the result."""
    rank = data.ndim - 2
    full = [
        (size - 1) * s + (k - 1) * d + 1 + extra
        for size, s, k, d, extra in zip(
            data.shape[2:], strides, weight.shape[2:], dilation, output_padding, strict=True
        )
    ]
    outputs, inputs = weight.shape[1], data.shape[1] // groups
    result = np.zeros((data.shape[0], outputs * groups, *full))
    for tap, seen in _taps(weight.shape[2:], data.shape[2:], strides, dilation):
        for group in range(groups):
            rows = slice(group * inputs, (group + 1) * inputs)
            matrix = weight[_at(rows, slice(None), *tap)].astype("float64")
            part = np.einsum("io,ni...->no...", matrix, data[:, rows])
            result[_at(slice(None), slice(group * outputs, (group + 1) * outputs), *seen)] += part
    inner = [slice(low, size - high) for low, high, size in zip(padding, padding[rank:], full, strict=False)]
    return result[_at(..., *inner)]


def pool(
    data: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    kind: str,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> np.ndarray:
    """Relay's pooling: with ``ceil_mode`` every window that starts within the sizes it computes counts,
    also one that starts behind the data; elements behind the padding belong to no window's count."""
    rank = data.ndim - 2
    extra = [stride - 1 if ceil_mode else 0 for stride in strides]
    after = [padding[rank + axis] + extra[axis] for axis in range(rank)]
    wide = [*padding[:rank], *after]
    image = _padded(data.astype("float64"), wide, 0 if kind == "avg" else np.finfo(data.dtype).min)
    counted = _padded(np.ones_like(data), padding, 1 if count_include_pad else 0)
    counted = _padded(counted, [0] * rank + extra, 0)
    counts = _counts(image.shape[2:], kernel, strides, dilation)
    windows = [
        (image[_at(..., *seen)], counted[_at(..., *seen)])
        for _, seen in _taps(kernel, counts, strides, dilation)
    ]
    if kind == "max":
        return np.max([values for values, _ in windows], axis=0)
    total = sum(values for values, _ in windows)
    return total / np.maximum(sum(ones for _, ones in windows), 1)
