"""ConvNeXt: Liu, Mao, Wu, Feichtenhofer, Darrell, Xie 2022, "A ConvNet for the 2020s", arXiv:2201.03545, in
torchvision's form without stochastic depth."""

from relay_layout.models.builder import GELU_GAIN, NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options

STAGES = ((96, 3), (192, 3), (384, 9), (768, 3))
"""Channels and number of blocks."""

EXPANSION = 4
EPSILON = 1e-6

LAYER_SCALE = 0.3
"""Mean factor of a residual branch. Training starts from 1e-6, which would hide the branch."""

CHANNELS_LAST = (0, 2, 3, 1)
CHANNELS_FIRST = (0, 3, 1, 2)


def convnext_tiny(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """ConvNeXt-Tiny, [N,3,H,W] to [N,classes]; 28,589,128 parameters at full width and 1000 classes."""
    stem = options.channels(STAGES[0][0])
    value = builder.convolution(data, "features.0.0", stem, 4, strides=4, bias=True)
    value = _normalized(builder, value, "features.0.1")
    for stage, (channels, depth) in enumerate(STAGES):
        if stage:
            name = f"features.{2 * stage}"
            value = _normalized(builder, value, f"{name}.0")
            width = options.channels(channels)
            value = builder.convolution(value, f"{name}.1", width, 2, strides=2, bias=True, gain=1.0)
        for index in range(depth):
            value = _block(builder, value, f"features.{2 * stage + 1}.{index}")
    value = builder.global_average_pool(value, "avgpool")
    value = _normalized(builder, value, "classifier.0")
    value = builder.flatten(value, "classifier.1")
    return builder.dense(value, "classifier.2", options.classes, gain=1.0)


def _normalized(builder: NetworkBuilder, data: Value, name: str) -> Value:
    value = builder.transpose(data, f"{name}.channels_last", CHANNELS_LAST)
    value = builder.layer_normalization(value, name, epsilon=EPSILON)
    return builder.transpose(value, f"{name}.channels_first", CHANNELS_FIRST)


def _block(builder: NetworkBuilder, data: Value, name: str) -> Value:
    channels = int(data.shape[1])
    value = builder.convolution(
        data, f"{name}.block.0", channels, 7, padding=3, groups=channels, bias=True, gain=1.0
    )
    value = builder.transpose(value, f"{name}.block.1", CHANNELS_LAST)
    value = builder.layer_normalization(value, f"{name}.block.2", epsilon=EPSILON)
    value = builder.pixelwise_dense(value, f"{name}.block.3", EXPANSION * channels, gain=1.0)
    value = builder.gelu(value, f"{name}.block.4")
    value = builder.pixelwise_dense(value, f"{name}.block.5", channels, gain=GELU_GAIN)
    value = builder.transpose(value, f"{name}.block.6", CHANNELS_FIRST)
    value = builder.scale(value, f"{name}.layer_scale", LAYER_SCALE)
    return builder.add(value, data, f"{name}.add")
