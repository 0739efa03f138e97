"""Residual networks: He, Zhang, Ren, Sun 2015, "Deep Residual Learning for Image Recognition",
arXiv:1512.03385, in torchvision's form (the bottleneck's stride sits on its 3x3 convolution)."""

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options

BRANCH_SCALE = 0.3
"""Mean gamma at the end of a residual branch: the sum over all blocks must not grow with depth."""


def resnet18(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """ResNet-18, [N,3,H,W] to [N,classes]; 11,689,512 parameters at full width and 1000 classes."""
    return _resnet(builder, data, options, (2, 2, 2, 2), bottleneck=False)


def resnet50(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """ResNet-50, [N,3,H,W] to [N,classes]; 25,557,032 parameters at full width and 1000 classes."""
    return _resnet(builder, data, options, (3, 4, 6, 3), bottleneck=True)


def _resnet(
    builder: NetworkBuilder, data: Value, options: Options, depths: tuple[int, ...], *, bottleneck: bool
) -> Value:
    value = builder.convolution(data, "conv1", options.channels(64), 7, strides=2, padding=3)
    value = builder.batch_normalization(value, "bn1")
    value = builder.relu(value, "relu")
    value = builder.max_pool(value, "maxpool", 3, strides=2, padding=1)
    block = _bottleneck if bottleneck else _basic
    for stage, depth in enumerate(depths):
        for index in range(depth):
            strides = 2 if stage > 0 and index == 0 else 1
            name = f"layer{stage + 1}.{index}"
            value = block(builder, value, name, options.channels(64 * 2**stage), strides)
    value = builder.global_average_pool(value, "avgpool")
    value = builder.flatten(value, "flatten")
    return builder.dense(value, "fc", options.classes)


def _basic(builder: NetworkBuilder, data: Value, name: str, channels: int, strides: int) -> Value:
    value = builder.convolution(data, f"{name}.conv1", channels, 3, strides=strides, padding=1)
    value = builder.batch_normalization(value, f"{name}.bn1")
    value = builder.relu(value, f"{name}.relu1")
    value = builder.convolution(value, f"{name}.conv2", channels, 3, padding=1)
    value = builder.batch_normalization(value, f"{name}.bn2", scale=BRANCH_SCALE)
    return _join(builder, data, value, name, strides, "relu2")


def _bottleneck(builder: NetworkBuilder, data: Value, name: str, channels: int, strides: int) -> Value:
    value = builder.convolution(data, f"{name}.conv1", channels, 1)
    value = builder.batch_normalization(value, f"{name}.bn1")
    value = builder.relu(value, f"{name}.relu1")
    value = builder.convolution(value, f"{name}.conv2", channels, 3, strides=strides, padding=1)
    value = builder.batch_normalization(value, f"{name}.bn2")
    value = builder.relu(value, f"{name}.relu2")
    value = builder.convolution(value, f"{name}.conv3", 4 * channels, 1)
    value = builder.batch_normalization(value, f"{name}.bn3", scale=BRANCH_SCALE)
    return _join(builder, data, value, name, strides, "relu3")


def _join(
    builder: NetworkBuilder, data: Value, branch: Value, name: str, strides: int, activation: str
) -> Value:
    shortcut = data
    if strides != 1 or data.shape[1] != branch.shape[1]:
        channels = int(branch.shape[1])
        shortcut = builder.convolution(data, f"{name}.downsample.0", channels, 1, strides=strides, gain=1.0)
        shortcut = builder.batch_normalization(shortcut, f"{name}.downsample.1")
    value = builder.add(branch, shortcut, f"{name}.add")
    return builder.relu(value, f"{name}.{activation}")
