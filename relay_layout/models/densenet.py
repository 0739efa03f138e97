"""DenseNet: Huang, Liu, van der Maaten, Weinberger 2016, "Densely Connected Convolutional Networks",
arXiv:1608.06993, in torchvision's form."""

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options

DEPTHS = (6, 12, 24, 16)
"""Layers of each dense block."""

GROWTH = 32
BOTTLENECK = 4
"""A layer's inner channels, as a multiple of the growth."""


def densenet121(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """DenseNet-121, [N,3,H,W] to [N,classes]; 7,978,856 parameters at full width and 1000 classes."""
    value = builder.convolution(data, "features.conv0", options.channels(64), 7, strides=2, padding=3)
    value = builder.batch_normalization(value, "features.norm0")
    value = builder.relu(value, "features.relu0")
    value = builder.max_pool(value, "features.pool0", 3, strides=2, padding=1)
    growth = options.channels(GROWTH)
    for block, depth in enumerate(DEPTHS, start=1):
        parts = [value]
        for layer in range(1, depth + 1):
            name = f"features.denseblock{block}.denselayer{layer}"
            parts.append(_layer(builder, parts, name, growth))
        value = builder.concatenate(parts, f"features.denseblock{block}.concat")
        if block < len(DEPTHS):
            value = _transition(builder, value, f"features.transition{block}")
    value = builder.batch_normalization(value, "features.norm5")
    value = builder.relu(value, "relu")
    value = builder.global_average_pool(value, "avgpool")
    value = builder.flatten(value, "flatten")
    return builder.dense(value, "classifier", options.classes)


def _layer(builder: NetworkBuilder, parts: list[Value], name: str, growth: int) -> Value:
    value = parts[0] if len(parts) == 1 else builder.concatenate(parts, f"{name}.concat")
    value = builder.batch_normalization(value, f"{name}.norm1")
    value = builder.relu(value, f"{name}.relu1")
    value = builder.convolution(value, f"{name}.conv1", BOTTLENECK * growth, 1)
    value = builder.batch_normalization(value, f"{name}.norm2")
    value = builder.relu(value, f"{name}.relu2")
    return builder.convolution(value, f"{name}.conv2", growth, 3, padding=1)


def _transition(builder: NetworkBuilder, data: Value, name: str) -> Value:
    value = builder.batch_normalization(data, f"{name}.norm")
    value = builder.relu(value, f"{name}.relu")
    value = builder.convolution(value, f"{name}.conv", int(data.shape[1]) // 2, 1)
    return builder.average_pool(value, f"{name}.pool", 2, strides=2)
