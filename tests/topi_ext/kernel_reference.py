"""The mathematics of the kernels in plain numpy, on logical NCHW arrays, and moving arrays between layouts.

Written from the definitions and not from ``topi_ext``, so that both can disagree.
"""

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def axes_of(layout: str) -> list[tuple[str, int]]:
    """The dimensions of ``layout`` in memory order: axis, and factor of a block or 0."""
    found = re.findall(r"([A-Z])|([0-9]+)([a-z])", layout)
    return [(outer, 0) if outer else (inner.upper(), int(factor)) for outer, factor, inner in found]


def pack(array: Array, order: str, layout: str) -> Array:
    """``array``, whose dimensions are the axes ``order``, as it is stored in ``layout``."""
    axes = axes_of(layout)
    shape: list[int] = []
    place: dict[int, int] = {}
    for axis, extent in zip(order, array.shape, strict=True):
        if all(name != axis for name, _ in axes):
            assert extent == 1, f"{layout} leaves out {extent} of {axis}"
            continue
        outer = axes.index((axis, 0))
        blocks = [at for at, (name, factor) in enumerate(axes) if name == axis and factor]
        factors = [axes[at][1] for at in blocks]
        assert extent % prod(factors) == 0, f"{extent} of {axis} in {layout}"
        place.update({at: len(shape) + step for step, at in enumerate([outer, *blocks])})
        shape += [extent // prod(factors), *factors]
    return np.ascontiguousarray(array.reshape(shape).transpose([place[at] for at in range(len(axes))]))


def unpack(array: Array, order: str, layout: str) -> Array:
    """The inverse of :func:`pack`."""
    names = [name for name, _ in axes_of(layout)]
    places = [[place for place, name in enumerate(names) if name == axis] for axis in order]
    moved = array.transpose([place for group in places for place in group])
    return moved.reshape([prod(array.shape[place] for place in group) for group in places])


def convolve(
    data: Array,
    weight: Array,
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
) -> NDArray[np.float64]:
    """2-D convolution of [N, C, H, W] with [O, C / groups, KH, KW]; padding is top, left, bottom, right."""
    batch = data.shape[0]
    out_channels, channels, *kernel = weight.shape
    top, left, bottom, right = padding
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    extents = [
        (size - step * (taps - 1) - 1) // stride + 1
        for size, step, taps, stride in zip(padded.shape[2:], dilation, kernel, strides, strict=True)
    ]
    result = np.zeros((batch, groups, out_channels // groups, *extents))
    grouped = weight.astype("float64").reshape(groups, out_channels // groups, channels, *kernel)
    for row, column in np.ndindex(*kernel):
        rows = slice(row * dilation[0], row * dilation[0] + (extents[0] - 1) * strides[0] + 1, strides[0])
        columns = slice(
            column * dilation[1], column * dilation[1] + (extents[1] - 1) * strides[1] + 1, strides[1]
        )
        window = padded[:, :, rows, columns].reshape(batch, groups, channels, *extents)
        result += np.einsum("ngihw,goi->ngohw", window, grouped[..., row, column])
    return result.reshape(batch, out_channels, *extents)


def pool(
    data: Array,
    operator: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    out_extents: Sequence[int],
    count_include_pad: bool = False,
) -> NDArray[np.float64]:
    """Max or mean of each window of [N, C, H, W], one window at a time.

    A window of ceil mode may reach beyond the padded image; what lies there belongs to no window. Every
    window must meet the image.
    """
    values = data.astype("float64")
    result = np.empty((*data.shape[:2], *out_extents))
    for row, column in np.ndindex(*out_extents):
        inside: list[tuple[int, int]] = []
        counted = 0
        for tap in np.ndindex(*kernel):
            place = [
                start * strides[axis] - padding[axis] + tap[axis] * dilation[axis]
                for axis, start in enumerate((row, column))
            ]
            sizes = data.shape[2:]
            counted += all(place[axis] < sizes[axis] + padding[axis + 2] for axis in (0, 1))
            if all(0 <= place[axis] < sizes[axis] for axis in (0, 1)):
                inside.append((place[0], place[1]))
        window = np.stack([values[:, :, h, w] for h, w in inside])
        if operator == "max_pool2d":
            result[:, :, row, column] = window.max(axis=0)
        else:
            divisor = counted if count_include_pad else len(inside)
            result[:, :, row, column] = window.sum(axis=0) / max(divisor, 1)
    return result
