"""EfficientNet: Tan, Le 2019, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks",
arXiv:1905.11946, in torchvision's form without dropout and stochastic depth."""

from relay_layout.models.builder import SILU_GAIN, NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options
from relay_layout.models.squeeze_excitation import GATED_GAIN, squeeze_excite

STAGES = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
"""Table 1 of the paper: expansion, kernel, output channels, number of blocks, strides of the first."""

BRANCH_SCALE = 0.4
"""Mean gamma at the end of a residual branch: the sum over a stage's blocks must not grow."""


def efficientnet_b0(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """EfficientNet-B0, [N,3,H,W] to [N,classes]; 5,288,548 parameters at full width and 1000 classes."""
    value = _convolution(builder, data, "features.0", options.channels(32), 3, strides=2, gain=1.0)
    for stage, (expansion, kernel, channels, blocks, first_strides) in enumerate(STAGES, start=1):
        for block in range(blocks):
            strides = first_strides if block == 0 else 1
            name = f"features.{stage}.{block}.block"
            width = options.channels(channels)
            value = _inverted_residual(builder, value, name, expansion, kernel, width, strides)
    value = _convolution(builder, value, f"features.{len(STAGES) + 1}", options.channels(1280), 1, gain=1.0)
    value = builder.global_average_pool(value, "avgpool")
    value = builder.flatten(value, "flatten")
    return builder.dense(value, "classifier.1", options.classes, gain=SILU_GAIN)


def _inverted_residual(
    builder: NetworkBuilder,
    data: Value,
    name: str,
    expansion: int,
    kernel: int,
    channels: int,
    strides: int,
) -> Value:
    in_channels = int(data.shape[1])
    hidden = expansion * in_channels
    value = data
    step = 0
    if expansion != 1:
        # The bottleneck before it is linear: gain 1.
        value = _convolution(builder, value, f"{name}.0", hidden, 1, gain=1.0)
        step = 1
    value = _convolution(builder, value, f"{name}.{step}", hidden, kernel, strides=strides, groups=hidden)
    value = squeeze_excite(
        builder,
        value,
        f"{name}.{step + 1}",
        max(1, in_channels // 4),
        activation=builder.silu,
        gate=builder.sigmoid,
        gain=SILU_GAIN,
    )
    residual = strides == 1 and in_channels == channels
    value = builder.convolution(value, f"{name}.{step + 2}.0", channels, 1, gain=SILU_GAIN * GATED_GAIN)
    value = builder.batch_normalization(
        value, f"{name}.{step + 2}.1", scale=BRANCH_SCALE if residual else 1.0
    )
    return builder.add(value, data, f"{name}.add") if residual else value


def _convolution(
    builder: NetworkBuilder,
    data: Value,
    name: str,
    channels: int,
    kernel: int,
    *,
    gain: float = SILU_GAIN,
    **options: int,
) -> Value:
    value = builder.normalized_convolution(data, name, channels, kernel, gain=gain, **options)
    return builder.silu(value, f"{name}.2")
