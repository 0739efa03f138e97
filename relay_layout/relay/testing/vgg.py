"""VGG: Simonyan, Zisserman 2014, "Very Deep Convolutional Networks for Large-Scale Image Recognition",
arXiv:1409.1556."""

from typing import Any

import tvm

from relay_layout.relay import nn
from relay_layout.relay.analysis import free_vars
from relay_layout.relay.expression import Function, var
from relay_layout.relay.testing import layers
from relay_layout.relay.testing.init import create_workload

_DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of each stage, by the number of layers with weights."""

_CHANNELS = (64, 128, 256, 512, 512)


def get_net(
    batch_size: int,
    image_shape: tuple[int, int, int],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """A network of 11, 13, 16 or 19 layers. ValueError for another number."""
    if num_layers not in _DEPTHS:
        raise ValueError(f"VGG has {', '.join(map(str, _DEPTHS))} layers, not {num_layers}")
    net: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for stage, (depth, channels) in enumerate(zip(_DEPTHS[num_layers], _CHANNELS, strict=True), 1):
        for index in range(1, depth + 1):
            name = f"{stage}_{index}"
            net = layers.conv2d(
                net, channels=channels, kernel_size=(3, 3), padding=(1, 1), name=f"conv{name}"
            )
            net = nn.bias_add(net, var(f"conv{name}_bias"))
            if batch_norm:
                net = layers.batch_norm_infer(net, name=f"bn{name}")
            net = nn.relu(net)
        net = nn.max_pool2d(net, pool_size=(2, 2), strides=(2, 2))
    net = nn.batch_flatten(net)
    for name in ("fc6", "fc7"):
        net = nn.dropout(nn.relu(layers.dense_add_bias(net, units=4096, name=name)), rate=0.5)
    net = nn.softmax(layers.dense_add_bias(net, units=num_classes, name="fc8"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The network with random weights."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
