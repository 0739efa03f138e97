"""Residual networks with normalization first: He, Zhang, Ren, Sun 2016, "Identity Mappings in Deep Residual
Networks", arXiv:1603.05027."""

from typing import Any

import tvm

from relay_layout.relay import nn
from relay_layout.relay.analysis import free_vars
from relay_layout.relay.expression import Function, var
from relay_layout.relay.testing import layers
from relay_layout.relay.testing.init import create_workload

_EPSILON = 2e-5

_UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}
"""Units of the four stages, by depth."""

_SMALL_IMAGE = 32
"""Images up to this height get the first convolution made for CIFAR."""

_THREE_STAGES = 28
"""Images up to this height get the three stages made for CIFAR, as do larger small ones of their depths."""


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Function:
    """A network of 18, 34, 50, 101, 152 or 200 layers; of 6n+2 or 9n+2 (from 164) for images up to 28 high.

    Images up to 32 high may have either. ``image_shape`` is in the order of ``layout`` without N. ValueError
    for another depth or layout.
    """
    if kwargs:
        raise TypeError(f"resnet has no option '{next(iter(kwargs))}'")
    layers.conv_kernel_layout(layout)
    height = image_shape[layout.index("H") - 1]
    small = height <= _SMALL_IMAGE
    units, filters, bottleneck = _structure(num_layers, height)
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = _Layers(layout).network(data, units, filters, bottleneck, small, num_classes)
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The network of :func:`get_net` with random weights."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))


def _structure(depth: int, height: int) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Units per stage, channels before the first and of each stage, and whether units are bottlenecks."""
    small = height <= _SMALL_IMAGE
    if height > _THREE_STAGES and depth in _UNITS:
        bottleneck = depth >= 50
        return (
            _UNITS[depth],
            (64, 256, 512, 1024, 2048) if bottleneck else (64, 64, 128, 256, 512),
            bottleneck,
        )
    if small and depth >= 164 and (depth - 2) % 9 == 0:
        return ((depth - 2) // 9,) * 3, (16, 64, 128, 256), True
    if small and 8 <= depth < 164 and (depth - 2) % 6 == 0:
        return ((depth - 2) // 6,) * 3, (16, 16, 32, 64), False
    raise ValueError(f"there is no residual network of {depth} layers for images {height} high")


class _Layers:
    """Layers in one layout."""

    def __init__(self, layout: str) -> None:
        self.layout = layout
        self.kernel_layout = layers.conv_kernel_layout(layout)
        self.axis = layout.index("C")

    def network(
        self,
        data: Any,
        units: tuple[int, ...],
        filters: tuple[int, ...],
        bottleneck: bool,
        small: bool,
        num_classes: int,
    ) -> Any:
        """The whole network."""
        net = layers.batch_norm_infer(data, epsilon=_EPSILON, axis=self.axis, scale=False, name="bn_data")
        if small:
            net = self.convolution(net, filters[0], 3, 1, "conv0")
        else:
            net = self.convolution(net, filters[0], 7, 2, "conv0")
            net = self.activation(net, "bn0")
            net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=self.layout)
        for stage, count in enumerate(units):
            for unit in range(count):
                stride = 2 if stage > 0 and unit == 0 else 1
                name = f"stage{stage + 1}_unit{unit + 1}"
                net = self.unit(net, filters[stage + 1], stride, unit > 0, bottleneck, name)
        return layers.finish(self.activation(net, "bn1"), num_classes, self.layout, "fc1")

    def unit(
        self, data: Any, channels: int, stride: int, same_shape: bool, bottleneck: bool, name: str
    ) -> Any:
        """A residual unit; the shortcut is a convolution unless the shape stays the same."""
        first = self.activation(data, f"{name}_bn1")
        if bottleneck:
            net = self.convolution(first, channels // 4, 1, stride, f"{name}_conv1")
            net = self.activation(net, f"{name}_bn2")
            net = self.convolution(net, channels // 4, 3, 1, f"{name}_conv2")
            net = self.activation(net, f"{name}_bn3")
            net = self.convolution(net, channels, 1, 1, f"{name}_conv3")
        else:
            net = self.convolution(first, channels, 3, stride, f"{name}_conv1")
            net = self.activation(net, f"{name}_bn2")
            net = self.convolution(net, channels, 3, 1, f"{name}_conv2")
        shortcut = data if same_shape else self.convolution(first, channels, 1, stride, f"{name}_sc")
        return net + shortcut

    def activation(self, data: Any, name: str) -> Any:
        """Batch normalization and ReLU."""
        return nn.relu(layers.batch_norm_infer(data, epsilon=_EPSILON, axis=self.axis, name=name))

    def convolution(self, data: Any, channels: int, kernel: int, stride: int, name: str) -> Any:
        """A convolution that keeps the size, but for its stride."""
        return layers.conv2d(
            data,
            channels=channels,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            padding=(kernel // 2, kernel // 2),
            data_layout=self.layout,
            kernel_layout=self.kernel_layout,
            name=name,
        )
