"""DenseNet: Huang, Liu, van der Maaten, Weinberger 2017, "Densely Connected Convolutional Networks",
arXiv:1608.06993.

As in Relay's own, each layer of a block reads the layer before it alone; they are put together at its end.
"""

from typing import Any

import tvm

from relay_layout.relay import concatenate, nn
from relay_layout.relay.analysis import free_vars
from relay_layout.relay.expression import Function, var
from relay_layout.relay.testing import layers
from relay_layout.relay.testing.init import create_workload

_SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    # The 69 are Relay's, whose networks scripts compare with.
    169: (69, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""Channels of the first convolution, channels that each layer gives, and layers of each block."""

_WIDENING = 4
"""How many times the channels of a layer are there within it."""


def get_net(
    densenet_size: int, classes: int, batch_size: int, image_shape: tuple[int, int, int], dtype: str
) -> Function:
    """The network of a size. ValueError for an unknown one."""
    if densenet_size not in _SIZES:
        raise ValueError(f"the sizes of DenseNet are {', '.join(map(str, _SIZES))}, not {densenet_size}")
    features, growth, blocks = _SIZES[densenet_size]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = layers.conv2d(
        data, channels=features, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1"
    )
    net = nn.max_pool2d(_normalized(net, "batch1"), pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for index, count in enumerate(blocks):
        parts = []
        for layer in range(count):
            net = _layer(net, growth, f"{index}_{layer}")
            parts.append(net)
        net = concatenate(parts, axis=1)
        features += count * growth
        if index < len(blocks) - 1:
            features //= 2
            net = _normalized(net, f"batch_t_{index}")
            net = layers.conv2d(net, channels=features, kernel_size=(1, 1), name=f"conv_t_{index}")
            net = nn.avg_pool2d(net, pool_size=(2, 2), strides=(2, 2))
    net = nn.avg_pool2d(_normalized(net, "batch2"), pool_size=(7, 7))
    net = layers.dense_add_bias(nn.batch_flatten(net), units=classes, name="dense")
    return Function(free_vars(net), net)


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The network with random weights."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype))


def _layer(data: Any, growth: int, name: str) -> Any:
    net = _normalized(data, f"batch_1_{name}")
    net = layers.conv2d(net, channels=_WIDENING * growth, kernel_size=(1, 1), name=f"conv2d_1_{name}")
    net = _normalized(net, f"batch_2_{name}")
    return layers.conv2d(net, channels=growth, kernel_size=(3, 3), padding=(1, 1), name=f"conv2d_2_{name}")


def _normalized(data: Any, name: str) -> Any:
    """Batch norm and ReLU."""
    return nn.relu(layers.batch_norm_infer(data, name=name))
