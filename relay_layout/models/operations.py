"""The operations a :class:`~relay_layout.models.network.Network` is made of.

An operation holds its attributes and knows the shape of its result. Weights are parameters of the node,
so that one description serves every emitter. All tensors are float32; images are NCHW.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from relay_layout.errors import ModelError
from relay_layout.models.shapes import Padding, Pair, Shape, image, slid, static_extent, written


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
        batch, channels, height, width = image(inputs[0])
        if channels % self.groups or self.out_channels % self.groups:
            raise ModelError(
                f"{self.groups} groups do not divide {channels} input and {self.out_channels} output channels"
            )
        spatial = slid((height, width), self.kernel, self.strides, self.padding, self.dilation)
        return (batch, self.out_channels, *spatial)


@dataclass(frozen=True)
class TransposedConvolution:
    """The adjoint of a convolution, with an IOHW weight [C,O,kernel] and an optional bias [O]."""

    out_channels: int
    kernel: Pair
    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,H,W] to [N,O,H',W']; ModelError where the padding leaves nothing."""
        batch, _, height, width = image(inputs[0])
        spatial = tuple(
            (extent - 1) * self.strides[axis]
            + self.kernel[axis]
            - self.padding[axis]
            - self.padding[axis + 2]
            for axis, extent in enumerate((height, width))
        )
        if min(spatial) < 1:
            raise ModelError(f"a padding of {self.padding} leaves an image of {spatial[0]} by {spatial[1]}")
        return (batch, self.out_channels, *spatial)


class _KeepsShape:
    """An operation whose result has the shape of its first input."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of the input."""
        return inputs[0]


@dataclass(frozen=True)
class BatchNormalization(_KeepsShape):
    """Inference form over axis 1; parameters gamma, beta, running mean and running variance, each [C]."""

    epsilon: float = 1e-5


@dataclass(frozen=True)
class LayerNormalization(_KeepsShape):
    """Over the last axis; parameters gamma and beta, each of its extent."""

    epsilon: float = 1e-5


@dataclass(frozen=True)
class Relu(_KeepsShape):
    """max(x, 0)."""


@dataclass(frozen=True)
class Clip(_KeepsShape):
    """min(max(x, minimum), maximum); ReLU6 is a clip to 0 and 6."""

    minimum: float
    maximum: float


@dataclass(frozen=True)
class Sigmoid(_KeepsShape):
    """1 / (1 + exp(-x))."""


@dataclass(frozen=True)
class HardSigmoid(_KeepsShape):
    """min(max(x / 6 + 1/2, 0), 1), torch's slope."""


@dataclass(frozen=True)
class HardSwish(_KeepsShape):
    """x min(max(x / 6 + 1/2, 0), 1)."""


@dataclass(frozen=True)
class Gelu(_KeepsShape):
    """x times the normal distribution's share below x, exactly (with erf)."""


@dataclass(frozen=True)
class Scale(_KeepsShape):
    """An image times one factor per channel, a parameter [C,1,1]."""


@dataclass(frozen=True)
class MaxPool:
    """Largest value of each window; padding counts as minus infinity."""

    kernel: Pair
    strides: Pair
    padding: Padding = (0, 0, 0, 0)
    ceil_mode: bool = False

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,H,W] to [N,C,H',W']; ModelError where the window does not fit."""
        batch, channels, height, width = image(inputs[0])
        spatial = slid((height, width), self.kernel, self.strides, self.padding, ceil_mode=self.ceil_mode)
        return (batch, channels, *spatial)


@dataclass(frozen=True)
class AveragePool:
    """Mean of each window; padding counts as zeros, or not at all without ``count_include_pad``."""

    kernel: Pair
    strides: Pair
    padding: Padding = (0, 0, 0, 0)
    count_include_pad: bool = True

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,H,W] to [N,C,H',W']; ModelError where the window does not fit."""
        batch, channels, height, width = image(inputs[0])
        return (batch, channels, *slid((height, width), self.kernel, self.strides, self.padding))


@dataclass(frozen=True)
class GlobalAveragePool:
    """Mean over H and W, which stay as dimensions of extent 1."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,H,W] to [N,C,1,1]."""
        batch, channels, _, _ = image(inputs[0])
        return (batch, channels, 1, 1)


@dataclass(frozen=True)
class Resize:
    """An image enlarged by a whole factor, sampled as torch does.

    ``nearest`` repeats each pixel; ``linear`` interpolates between pixel centres (align_corners=False).
    """

    factor: int
    method: Literal["nearest", "linear"]

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,H,W] to [N,C,factor H,factor W]."""
        batch, channels, height, width = image(inputs[0])
        return (batch, channels, height * self.factor, width * self.factor)


@dataclass(frozen=True)
class Add:
    """Sum of two tensors of one shape."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of both inputs; ModelError where they differ."""
        if inputs[0] != inputs[1]:
            raise ModelError(f"cannot add {written(inputs[0])} and {written(inputs[1])}")
        return inputs[0]


@dataclass(frozen=True)
class Multiply:
    """Product of a tensor and another, whose extents of 1 are repeated."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of the first input; ModelError where the second does not spread over it."""
        first, second = inputs
        fits = len(first) == len(second) and all(
            factor in (1, extent) for extent, factor in zip(first, second, strict=True)
        )
        if not fits:
            raise ModelError(f"cannot multiply {written(first)} by {written(second)}")
        return first


@dataclass(frozen=True)
class Concatenate:
    """Inputs side by side along the channels, axis 1."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C1,...], [N,C2,...], ... to [N,C1+C2+...,...]; ModelError where other extents differ."""
        first = inputs[0]
        for shape in inputs[1:]:
            if shape[:1] + shape[2:] != first[:1] + first[2:]:
                raise ModelError(f"cannot concatenate {written(first)} and {written(shape)} along channels")
        return (first[0], sum(static_extent(shape, 1) for shape in inputs), *first[2:])


@dataclass(frozen=True)
class Slice:
    """The channels, axis 1, from ``start`` up to but without ``end``."""

    start: int
    end: int

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,C,...] to [N,end-start,...]; ModelError where there are no such channels."""
        channels = static_extent(inputs[0], 1)
        if not 0 <= self.start < self.end <= channels:
            raise ModelError(f"{channels} channels have no slice from {self.start} to {self.end}")
        return (inputs[0][0], self.end - self.start, *inputs[0][2:])


@dataclass(frozen=True)
class Transpose:
    """The axes in another order; ``axes[i]`` is the input's axis that becomes axis i."""

    axes: tuple[int, ...]

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The extents in that order; ModelError where ``axes`` is not a permutation of the input's."""
        if sorted(self.axes) != list(range(len(inputs[0]))):
            raise ModelError(f"{self.axes} does not order the axes of {written(inputs[0])}")
        return tuple(inputs[0][axis] for axis in self.axes)


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
            raise ModelError(f"a dense layer needs [N,K], not {written(inputs[0])}")
        return (inputs[0][0], self.out_features)


@dataclass(frozen=True)
class PixelwiseDense:
    """x W^T + b at every pixel of an image [N,H,W,K]; a weight [out_features,K] and a bias [out_features]."""

    out_features: int

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """[N,H,W,K] to [N,H,W,out_features]; ModelError for any other rank."""
        if len(inputs[0]) != 4:
            raise ModelError(f"a pixelwise dense layer needs [N,H,W,K], not {written(inputs[0])}")
        return (*inputs[0][:-1], self.out_features)


Operation = (
    Convolution
    | TransposedConvolution
    | BatchNormalization
    | LayerNormalization
    | Relu
    | Clip
    | Sigmoid
    | HardSigmoid
    | HardSwish
    | Gelu
    | Scale
    | MaxPool
    | AveragePool
    | GlobalAveragePool
    | Resize
    | Add
    | Multiply
    | Concatenate
    | Slice
    | Transpose
    | Flatten
    | Dense
    | PixelwiseDense
)
