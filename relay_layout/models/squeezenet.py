"""SqueezeNet: Iandola, Han, Moskewicz, Ashraf, Dally, Keutzer 2016, "SqueezeNet: AlexNet-level accuracy
with 50x fewer parameters and <0.5MB model size", arXiv:1602.07360, version 1.1 of the authors'
repository in torchvision's form without the classifier's dropout."""

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options

POOL = "pool"
FEATURES: tuple[tuple[int, int] | str, ...] = (
    POOL,
    (16, 64),
    (16, 64),
    POOL,
    (32, 128),
    (32, 128),
    POOL,
    (48, 192),
    (48, 192),
    (64, 256),
    (64, 256),
)
"""What follows the first convolution: pools, and fire modules as squeezed and expanded channels."""


def squeezenet1_1(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """SqueezeNet 1.1, [N,3,H,W] to [N,classes]; 1,235,496 parameters at full width and 1000 classes."""
    value = builder.convolution(data, "features.0", options.channels(64), 3, strides=2, bias=True)
    value = builder.relu(value, "features.1")
    for index, feature in enumerate(FEATURES, start=2):
        name = f"features.{index}"
        if isinstance(feature, str):
            value = builder.max_pool(value, name, 3, strides=2, ceil_mode=True)
        else:
            squeezed, expanded = feature
            value = _fire(builder, value, name, options.channels(squeezed), options.channels(expanded))
    value = builder.convolution(value, "classifier.1", options.classes, 1, bias=True)
    value = builder.relu(value, "classifier.2")
    value = builder.global_average_pool(value, "classifier.3")
    return builder.flatten(value, "flatten")


def _fire(builder: NetworkBuilder, data: Value, name: str, squeezed: int, expanded: int) -> Value:
    squeeze = builder.convolution(data, f"{name}.squeeze", squeezed, 1, bias=True)
    squeeze = builder.relu(squeeze, f"{name}.squeeze_activation")
    pointwise = builder.convolution(squeeze, f"{name}.expand1x1", expanded, 1, bias=True)
    pointwise = builder.relu(pointwise, f"{name}.expand1x1_activation")
    spatial = builder.convolution(squeeze, f"{name}.expand3x3", expanded, 3, padding=1, bias=True)
    spatial = builder.relu(spatial, f"{name}.expand3x3_activation")
    return builder.concatenate((pointwise, spatial), f"{name}.concat")
