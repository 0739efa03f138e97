"""ONNX convolutions and poolings as torch functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from relay_layout.bench.onnx_to_torch.node import Builder, Node, Operation


def _same_padding(size: int, window: int, stride: int, more_at_end: bool) -> tuple[int, int]:
    """Padding before and after one dimension for ONNX's auto_pad SAME_UPPER or SAME_LOWER."""
    total = max((math.ceil(size / stride) - 1) * stride + window - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if more_at_end else (large, small)


@dataclass(frozen=True)
class Window:
    """A sliding window over the spatial dimensions, as Conv and the pooling operators describe it."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    auto_pad: str
    pads: tuple[int, ...]
    ceil_mode: bool

    @classmethod
    def of(cls, node: Node, kernel: Sequence[int]) -> Window:
        rank = len(kernel)
        attributes = node.attributes
        return cls(
            kernel=tuple(kernel),
            strides=tuple(attributes.get("strides", (1,) * rank)),
            dilations=tuple(attributes.get("dilations", (1,) * rank)),
            auto_pad=attributes.get("auto_pad", "NOTSET"),
            pads=tuple(attributes.get("pads", (0,) * (2 * rank))),
            ceil_mode=bool(attributes.get("ceil_mode", 0)),
        )

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def extent(self, axis: int) -> int:
        """Elements that the dilated window spans along a spatial axis."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def padding(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Padding (before, after) of each spatial axis for an input of these spatial sizes."""
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            return [
                _same_padding(size, self.extent(axis), self.strides[axis], self.auto_pad == "SAME_UPPER")
                for axis, size in enumerate(sizes)
            ]
        if self.auto_pad == "VALID":
            return [(0, 0)] * self.rank
        return list(zip(self.pads[: self.rank], self.pads[self.rank :], strict=True))

    def padding_up_to_last_window(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Like ``padding``, with the end stretched or cropped to where the last window of ceil_mode ends."""
        result = []
        for axis, (size, (before, after)) in enumerate(zip(sizes, self.padding(sizes), strict=True)):
            stride, extent = self.strides[axis], self.extent(axis)
            steps = (size + before + after - extent) / stride
            count = (math.ceil(steps) if self.ceil_mode else math.floor(steps)) + 1
            if self.ceil_mode and (count - 1) * stride >= size + before:
                count -= 1  # a window that would start in the padding at the end is left out
            result.append((before, (count - 1) * stride + extent - size - before))
        return result


def pad_argument(padding: Sequence[tuple[int, int]]) -> list[int]:
    """Padding in torch's order: last axis first."""
    return [amount for pair in reversed(padding) for amount in pair]


def _symmetric(padding: Sequence[tuple[int, int]]) -> bool:
    return all(before == after for before, after in padding)


_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {
    1: functional.conv1d,
    2: functional.conv2d,
    3: functional.conv3d,
}
_TRANSPOSED_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_MAX_POOLS: dict[int, Callable[..., Tensor]] = {
    1: functional.max_pool1d,
    2: functional.max_pool2d,
    3: functional.max_pool3d,
}
_AVERAGE_POOLS: dict[int, Callable[..., Tensor]] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}


def convolution(node: Node) -> Operation:
    """Conv: any rank, uneven padding included."""
    group = int(node.attributes.get("group", 1))

    def run(data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        window = Window.of(node, weight.shape[2:])
        padding = window.padding(data.shape[2:])
        if not _symmetric(padding):
            data = functional.pad(data, pad_argument(padding))
            padding = [(0, 0)] * window.rank
        return _CONVOLUTIONS[window.rank](
            data, weight, bias, window.strides, [before for before, _ in padding], window.dilations, group
        )

    return run


def transposed_convolution(node: Node) -> Operation:
    """ConvTranspose."""
    group = int(node.attributes.get("group", 1))
    if node.attributes.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in node.attributes:
        raise node.unsupported("ConvTranspose with auto_pad or output_shape")

    def run(data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        window = Window.of(node, weight.shape[2:])
        padding = window.padding(data.shape[2:])
        if not _symmetric(padding):
            raise node.unsupported("ConvTranspose with different padding at the two ends")
        extra = list(node.attributes.get("output_padding", (0,) * window.rank))
        before = [amount for amount, _ in padding]
        return _TRANSPOSED_CONVOLUTIONS[window.rank](
            data, weight, bias, window.strides, before, extra, group, window.dilations
        )

    return run


def max_pool(node: Node) -> Operation:
    """MaxPool without its Indices output."""
    if len(node.outputs) > 1:
        raise node.unsupported("MaxPool with its Indices output")
    window = Window.of(node, node.attributes["kernel_shape"])

    def run(data: Tensor) -> Tensor:
        padding = window.padding(data.shape[2:])
        fits = all(2 * before <= kernel for (before, _), kernel in zip(padding, window.kernel, strict=True))
        if not (_symmetric(padding) and fits) or window.ceil_mode:
            lowest = -math.inf if data.is_floating_point() else torch.iinfo(data.dtype).min
            stretched = window.padding_up_to_last_window(data.shape[2:])
            data = functional.pad(data, pad_argument(stretched), value=lowest)
            padding = [(0, 0)] * window.rank
        before = [amount for amount, _ in padding]
        return _MAX_POOLS[window.rank](data, window.kernel, window.strides, before, window.dilations)

    return run


def average_pool(node: Node) -> Operation:
    """AveragePool, with ONNX's counts in ceil mode."""
    window = Window.of(node, node.attributes["kernel_shape"])
    count_padding = bool(node.attributes.get("count_include_pad", 0))
    pool = _AVERAGE_POOLS[window.rank]
    if any(dilation != 1 for dilation in window.dilations):
        raise node.unsupported("AveragePool with dilation")

    def run(data: Tensor) -> Tensor:
        sizes = data.shape[2:]
        padding = window.padding(sizes)
        fits = all(2 * before <= kernel for (before, _), kernel in zip(padding, window.kernel, strict=True))
        if _symmetric(padding) and fits:
            before = [amount for amount, _ in padding]
            return pool(data, window.kernel, window.strides, before, window.ceil_mode, count_padding)
        # torch cannot pad the two ends differently: average zeros too, then divide by the share that counts.
        stretched = window.padding_up_to_last_window(sizes)
        counted = torch.ones((1, 1, *sizes), dtype=data.dtype)
        if count_padding:
            counted = functional.pad(counted, pad_argument(padding), value=1.0)
            beyond = [(0, new[1] - old[1]) for new, old in zip(stretched, padding, strict=True)]
            counted = functional.pad(counted, pad_argument(beyond))
        else:
            counted = functional.pad(counted, pad_argument(stretched))
        padded = functional.pad(data, pad_argument(stretched))
        return pool(padded, window.kernel, window.strides) / pool(counted, window.kernel, window.strides)

    return run


def global_pool(reduce: Callable[[Tensor, list[int]], Tensor]) -> Builder:
    """GlobalAveragePool and GlobalMaxPool."""
    return lambda node: lambda data: reduce(data, list(range(2, data.dim())))
