"""MobileNetV2: Sandler, Howard, Zhu, Zhmoginov, Chen 2018, "MobileNetV2: Inverted Residuals and Linear
Bottlenecks", arXiv:1801.04381, in torchvision's form without the classifier's dropout."""

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Table 2 of the paper: expansion, output channels, number of blocks, strides of the first."""

BRANCH_SCALE = 0.4
"""Mean gamma at the end of a residual branch: the sum over a stage's blocks must not grow."""


def mobilenet_v2(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """MobileNetV2, [N,3,H,W] to [N,classes]; 3,504,872 parameters at full width and 1000 classes."""
    value = _convolution(builder, data, "features.0", options.channels(32), 3, strides=2)
    index = 1
    for expansion, channels, blocks, first_strides in STAGES:
        for block in range(blocks):
            strides = first_strides if block == 0 else 1
            name = f"features.{index}"
            value = _inverted_residual(builder, value, name, options.channels(channels), expansion, strides)
            index += 1
    value = _convolution(builder, value, f"features.{index}", options.channels(1280), 1, gain=1.0)
    value = builder.global_average_pool(value, "avgpool")
    value = builder.flatten(value, "flatten")
    return builder.dense(value, "classifier.1", options.classes)


def _inverted_residual(
    builder: NetworkBuilder, data: Value, name: str, channels: int, expansion: int, strides: int
) -> Value:
    in_channels = int(data.shape[1])
    value = data
    step = 0
    if expansion != 1:
        # The bottleneck before it is linear, so nothing was lost to a rectifier: gain 1.
        value = _convolution(builder, value, f"{name}.conv.0", expansion * in_channels, 1, gain=1.0)
        step = 1
    hidden = int(value.shape[1])
    value = _convolution(builder, value, f"{name}.conv.{step}", hidden, 3, strides=strides, groups=hidden)
    residual = strides == 1 and in_channels == channels
    value = builder.convolution(value, f"{name}.conv.{step + 1}", channels, 1)
    value = builder.batch_normalization(
        value, f"{name}.conv.{step + 2}", scale=BRANCH_SCALE if residual else 1.0
    )
    return builder.add(data, value, f"{name}.add") if residual else value


def _convolution(
    builder: NetworkBuilder,
    data: Value,
    name: str,
    channels: int,
    kernel: int,
    *,
    gain: float = 2.0,
    **options: int,
) -> Value:
    value = builder.normalized_convolution(data, name, channels, kernel, gain=gain, **options)
    return builder.clip(value, f"{name}.2", 0.0, 6.0)
