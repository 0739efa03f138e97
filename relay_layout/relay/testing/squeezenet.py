"""SqueezeNet: Iandola, Han, Moskewicz, Ashraf, Dally, Keutzer 2016, "SqueezeNet: AlexNet-level accuracy
with 50x fewer parameters and <0.5MB model size", arXiv:1602.07360, and version 1.1 of its authors."""

from typing import Any

import tvm

from relay_layout.relay import concatenate, nn
from relay_layout.relay.analysis import free_vars
from relay_layout.relay.expression import Function, var
from relay_layout.relay.testing import layers
from relay_layout.relay.testing.init import create_workload

_FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
"""Channels of each fire module: squeezed, and of each of its two halves expanded."""

_VERSIONS = {"1.0": (96, 7, 3, (0, 3, 7)), "1.1": (64, 3, 1, (0, 2, 4))}
"""Channels, kernel and padding of the first convolution, and the fire modules that a pool comes before."""


def get_net(
    batch_size: int,
    image_shape: tuple[int, int, int],
    num_classes: int,
    version: str,
    dtype: str,
) -> Function:
    """The network of a version. ValueError for an unknown one."""
    if version not in _VERSIONS:
        raise ValueError(f"the versions of SqueezeNet are {' and '.join(_VERSIONS)}, not {version}")
    channels, kernel, padding, pools = _VERSIONS[version]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = _convolution(data, "conv1", channels, kernel, padding, stride=2)
    for index, (squeezed, expanded) in enumerate(_FIRES):
        if index in pools:
            net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2))
        name = f"fire{index + 1}"
        net = _convolution(net, f"{name}_input_conv", squeezed, 1, 0)
        halves = (
            _convolution(net, f"{name}_left_conv", expanded, 1, 0),
            _convolution(net, f"{name}_right_conv", expanded, 3, 1),
        )
        net = concatenate(halves, axis=1)
    net = nn.global_avg_pool2d(_convolution(nn.dropout(net), "conv_final", num_classes, 1, 0))
    net = nn.softmax(nn.batch_flatten(net))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The network with random weights."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))


def _convolution(data: Any, name: str, channels: int, kernel: int, padding: int, stride: int = 1) -> Any:
    """Convolution, bias and ReLU."""
    net = layers.conv2d(
        data,
        channels=channels,
        kernel_size=(kernel, kernel),
        strides=(stride, stride),
        padding=(padding, padding),
        name=name,
    )
    return nn.relu(nn.bias_add(net, var(f"{name}_bias")))
