"""MobileNet, version 1: Howard et al. 2017, "MobileNets: Efficient Convolutional Neural Networks for Mobile
Vision Applications", arXiv:1704.04861."""

from typing import Any

import tvm

from relay_layout.relay import nn
from relay_layout.relay.analysis import free_vars
from relay_layout.relay.expression import Function, var
from relay_layout.relay.testing import layers
from relay_layout.relay.testing.init import create_workload

_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
)
"""Channels that each separable convolution gives, and its stride."""


def mobile_net(
    num_classes: int = 1000,
    data_shape: tuple[int, ...] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    layout: str = "NCHW",
) -> Function:
    """The network; ``alpha`` scales the channels. ValueError for another layout than NCHW or NHWC."""
    channels = int(32 * alpha)
    net = _convolution(
        var("data", shape=data_shape, dtype=dtype), channels, 3, 2, layout, "conv_block_1_conv"
    )
    net = _activation(net, layout, "conv_block_1_bn")
    for index, (given, stride) in enumerate(_BLOCKS):
        name = f"separable_conv_block_{index + 1}"
        net = _convolution(net, channels, 3, stride, layout, name, groups=channels)
        net = _activation(net, layout, f"{name}_bn1")
        channels = int(given * alpha)
        net = _convolution(net, channels, 1, 1, layout, f"{name}_conv2")
        net = _activation(net, layout, f"{name}_bn2")
    net = layers.finish(net, num_classes, layout, "fc")
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The network with random weights; ``image_shape`` is in the order of ``layout`` without N."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, 1.0, layout))


def _convolution(
    data: Any, channels: int, kernel: int, stride: int, layout: str, name: str, groups: int = 1
) -> Any:
    """A convolution that keeps the size, but for its stride."""
    return layers.conv2d(
        data,
        channels=channels,
        kernel_size=(kernel, kernel),
        strides=(stride, stride),
        padding=(kernel // 2, kernel // 2),
        groups=groups,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout, is_depthwise=groups > 1),
        name=name,
    )


def _activation(data: Any, layout: str, name: str) -> Any:
    """Batch normalization and ReLU."""
    return nn.relu(layers.batch_norm_infer(data, epsilon=1e-5, axis=layout.index("C"), name=name))
