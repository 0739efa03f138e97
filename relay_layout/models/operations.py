"""The operations a :class:`~relay_layout.models.network.Network` is made of.

An operation holds its attributes and knows the shape of its result. Weights are parameters of the node,
so that one description serves every emitter. All tensors are float32; images are NCHW.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from relay_layout.errors import ModelError

Dimension = int | str
"""An extent, or the name of a symbolic one; only the batch dimension may be symbolic."""

Shape = tuple[Dimension, ...]
Pair = tuple[int, int]
Padding = tuple[int, int, int, int]
"""Padding of an image: top, left, bottom, right."""


@dataclass(frozen=True)
class Convolution:
    """Cross-correlation of [N,C,H,W] with an OIHW weight [O,C/groups,kernel], plus an optional bias [O]."""

    out_channels: int
    kernel: Pair
    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,H,W] to [N,O,H',W']; ModelError where the groups or the window do not fit."""
        batch, channels, height, width = _image(inputs[0])
        if channels % self.groups or self.out_channels % self.groups:
            raise ModelError(
                f"{self.groups} groups do not divide {channels} input and {self.out_channels} output channels"
            )
        return (batch, self.out_channels, *_slide(self, (height, width), ceil_mode=False))


@dataclass(frozen=True)
class BatchNormalization:
    """Inference form over axis 1; parameters gamma, beta, running mean and running variance, each [C]."""

    epsilon: float = 1e-5

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of the input."""
        return inputs[0]


@dataclass(frozen=True)
class Relu:
    """max(x, 0)."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of the input."""
        return inputs[0]


@dataclass(frozen=True)
class Clip:
    """min(max(x, minimum), maximum); ReLU6 is a clip to 0 and 6."""

    minimum: float
    maximum: float

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of the input."""
        return inputs[0]


@dataclass(frozen=True)
class MaxPool:
    """Largest value of each window; padding counts as minus infinity."""

    kernel: Pair
    strides: Pair
    padding: Padding = (0, 0, 0, 0)
    ceil_mode: bool = False
    dilation: Pair = (1, 1)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,H,W] to [N,C,H',W']; ModelError where the window does not fit."""
        batch, channels, height, width = _image(inputs[0])
        return (batch, channels, *_slide(self, (height, width), ceil_mode=self.ceil_mode))


@dataclass(frozen=True)
class GlobalAveragePool:
    """Mean over H and W, which stay as dimensions of extent 1."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,H,W] to [N,C,1,1]."""
        batch, channels, _, _ = _image(inputs[0])
        return (batch, channels, 1, 1)


@dataclass(frozen=True)
class Add:
    """Sum of two tensors of one shape."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of both inputs; ModelError where they differ."""
        if inputs[0] != inputs[1]:
            raise ModelError(f"cannot add {_written(inputs[0])} and {_written(inputs[1])}")
        return inputs[0]


@dataclass(frozen=True)
class Concatenate:
    """Inputs side by side along the channels, axis 1."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C1,...], [N,C2,...], ... to [N,C1+C2+...,...]; ModelError where other extents differ."""
        first = inputs[0]
        for shape in inputs[1:]:
            if shape[:1] + shape[2:] != first[:1] + first[2:]:
                raise ModelError(f"cannot concatenate {_written(first)} and {_written(shape)} along channels")
        return (first[0], sum(static_extent(shape, 1) for shape in inputs), *first[2:])


@dataclass(frozen=True)
class Flatten:
    """All dimensions but the batch as one, in row-major order."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,...] to [N,K]."""
        extent = 1
        for axis in range(1, len(inputs[0])):
            extent *= static_extent(inputs[0], axis)
        return (inputs[0][0], extent)


@dataclass(frozen=True)
class Dense:
    """x W^T + b with a weight [out_features,K] and a bias [out_features]."""

    out_features: int

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,K] to [N,out_features]; ModelError for any other rank."""
        if len(inputs[0]) != 2:
            raise ModelError(f"a dense layer needs [N,K], not {_written(inputs[0])}")
        return (inputs[0][0], self.out_features)


Operation = (
    Convolution
    | BatchNormalization
    | Relu
    | Clip
    | MaxPool
    | GlobalAveragePool
    | Add
    | Concatenate
    | Flatten
    | Dense
)


def static_extent(shape: Shape, axis: int) -> int:
    """The extent of ``shape`` along ``axis``; ModelError where it is symbolic."""
    extent = shape[axis]
    if isinstance(extent, str):
        raise ModelError(f"axis {axis} of {_written(shape)} is symbolic; only the batch may be")
    return extent


def _image(shape: Shape) -> tuple[Dimension, int, int, int]:
    if len(shape) != 4:
        raise ModelError(f"an image operation needs [N,C,H,W], not {_written(shape)}")
    return (shape[0], static_extent(shape, 1), static_extent(shape, 2), static_extent(shape, 3))


def _slide(window: Convolution | MaxPool, image: Pair, *, ceil_mode: bool) -> Pair:
    height, width = (
        _slide_axis(
            image[axis],
            window.dilation[axis] * (window.kernel[axis] - 1) + 1,
            window.strides[axis],
            window.padding[axis],
            window.padding[axis + 2],
            ceil_mode=ceil_mode,
        )
        for axis in (0, 1)
    )
    return height, width


def _slide_axis(extent: int, reach: int, stride: int, before: int, after: int, *, ceil_mode: bool) -> int:
    room = extent + before + after - reach
    if room < 0:
        raise ModelError(
            f"a window reaching {reach} does not fit an extent of {extent} padded by {before} and {after}"
        )
    steps = -(-room // stride) if ceil_mode else room // stride
    # torch drops such a window, TVM and old ONNX keep it: there is no result that all of them agree on.
    if ceil_mode and steps * stride >= extent + before:
        raise ModelError(
            f"with ceil_mode the last window starts past the extent of {extent} padded by {before} before it"
        )
    return steps + 1


def _written(shape: Shape) -> str:
    return "[" + ",".join(str(extent) for extent in shape) + "]"
