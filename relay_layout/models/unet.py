"""U-Net: Ronneberger, Fischer, Brox 2015, "U-Net: Convolutional Networks for Biomedical Image Segmentation",
arXiv:1505.04597, as it is mostly written in torch: padded convolutions with batch normalization, and
transposed convolutions on the way up."""

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options

CHANNELS = (64, 128, 256, 512, 1024)
"""Channels at each scale, from the full image down."""


def unet(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """U-Net, [N,3,H,W] to logits [N,classes,H,W]; 31,037,698 parameters at full width and 2 classes.

    H and W are multiples of 16.
    """
    value = _double(builder, data, "inc.double_conv", options.channels(CHANNELS[0]))
    skipped = []
    for depth, channels in enumerate(CHANNELS[1:], start=1):
        skipped.append(value)
        value = builder.max_pool(value, f"down{depth}.maxpool_conv.0", 2, strides=2)
        name = f"down{depth}.maxpool_conv.1.double_conv"
        value = _double(builder, value, name, options.channels(channels))
    for step, skip in enumerate(reversed(skipped), start=1):
        channels = int(skip.shape[1])
        value = builder.transposed_convolution(value, f"up{step}.up", channels, 2, strides=2, bias=True)
        value = builder.concatenate([skip, value], f"up{step}.concat")
        value = _double(builder, value, f"up{step}.conv.double_conv", channels)
    return builder.convolution(value, "outc.conv", options.classes, 1, bias=True)


def _double(builder: NetworkBuilder, data: Value, name: str, channels: int) -> Value:
    value = data
    for index in (0, 3):
        value = builder.convolution(value, f"{name}.{index}", channels, 3, padding=1)
        value = builder.batch_normalization(value, f"{name}.{index + 1}")
        value = builder.relu(value, f"{name}.{index + 2}")
    return value
