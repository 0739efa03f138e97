"""Inception v3: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna 2016, "Rethinking the Inception Architecture for
Computer Vision", arXiv:1512.00567."""

from collections.abc import Sequence
from typing import Any

import tvm

from relay_layout.relay import concatenate, nn
from relay_layout.relay.analysis import free_vars
from relay_layout.relay.expression import Function, var
from relay_layout.relay.testing import layers
from relay_layout.relay.testing.init import create_workload

Step = tuple[int, tuple[int, int]] | tuple[int, tuple[int, int], int]
"""Channels and kernel of a convolution, and a stride that is not 1, with which nothing is padded."""

_POINT, _ROW, _COLUMN = (1, 1), (1, 7), (7, 1)


def get_net(batch_size: int, num_classes: int, image_shape: tuple[int, int, int], dtype: str) -> Function:
    """The network for images of about 299x299."""
    net: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = _convolution(net, 32, (3, 3), "conv", stride=2, padding=(0, 0))
    net = _convolution(net, 32, (3, 3), "conv_1", padding=(0, 0))
    net = _convolution(net, 64, (3, 3), "conv_2")
    net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2))
    net = _convolution(net, 80, _POINT, "conv_3")
    net = _convolution(net, 192, (3, 3), "conv_4", padding=(0, 0))
    net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2))
    for name, projected in (("mixed", 32), ("mixed_1", 64), ("mixed_2", 64)):
        net = concatenate(
            [
                _convolution(net, 64, _POINT, f"{name}_conv"),
                _tower(net, f"{name}_tower", _FIVES),
                _tower(net, f"{name}_tower_1", _THREES),
                _projected(net, name, projected),
            ],
            axis=1,
        )
    net = concatenate(
        [
            _convolution(net, 384, (3, 3), "mixed_3_conv", stride=2, padding=(0, 0)),
            _tower(net, "mixed_3_tower", [(64, _POINT), (96, (3, 3)), (96, (3, 3), 2)]),
            nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2)),
        ],
        axis=1,
    )
    for name, inner in (("mixed_4", 128), ("mixed_5", 160), ("mixed_6", 160), ("mixed_7", 192)):
        pairs: list[Step] = [(inner, _POINT), (inner, _COLUMN), (inner, _ROW), (inner, _COLUMN)]
        net = concatenate(
            [
                _convolution(net, 192, _POINT, f"{name}_conv"),
                _tower(net, f"{name}_tower", [(inner, _POINT), (inner, _ROW), (192, _COLUMN)]),
                _tower(net, f"{name}_tower_1", [*pairs, (192, _ROW)]),
                _projected(net, name, 192),
            ],
            axis=1,
        )
    net = concatenate(
        [
            _tower(net, "mixed_8_tower", [(192, _POINT), (320, (3, 3), 2)]),
            _tower(net, "mixed_8_tower_1", [(192, _POINT), (192, _ROW), (192, _COLUMN), (192, (3, 3), 2)]),
            nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2)),
        ],
        axis=1,
    )
    net = _mixed(net, "mixed_9", "avg")
    net = _mixed(net, "mixed_10", "max")
    net = nn.avg_pool2d(net, pool_size=(8, 8), strides=(1, 1), count_include_pad=True)
    net = nn.dense(nn.batch_flatten(net), var("fc1_weight"), units=num_classes)
    net = nn.softmax(nn.bias_add(net, var("fc2_bias"), axis=-1))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, int, int] = (3, 299, 299),
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The network with random weights."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))


_FIVES: list[Step] = [(48, _POINT), (64, (5, 5))]
_THREES: list[Step] = [(64, _POINT), (96, (3, 3)), (96, (3, 3))]


def _mixed(data: Any, name: str, pool: str) -> Any:
    """The last kind of block, two of whose towers end in a row and a column side by side."""
    tower = _tower(data, f"{name}_tower", [(384, _POINT)])
    deeper = _tower(data, f"{name}_tower_1", [(448, _POINT), (384, (3, 3))])
    parts = [_convolution(data, 320, _POINT, f"{name}_conv")]
    for source, place in ((tower, "tower"), (deeper, "tower_1")):
        parts.append(_convolution(source, 384, (1, 3), f"{name}_{place}_mixed_conv"))
        parts.append(_convolution(source, 384, (3, 1), f"{name}_{place}_mixed_conv_1"))
    return concatenate([*parts, _projected(data, name, 192, pool)], axis=1)


def _projected(data: Any, name: str, channels: int, pool: str = "avg") -> Any:
    """A pool that keeps the size, and a convolution of single pixels."""
    if pool == "max":
        pooled = nn.max_pool2d(data, pool_size=(3, 3), strides=(1, 1), padding=(1, 1))
    else:
        pooled = nn.avg_pool2d(data, (3, 3), strides=(1, 1), padding=(1, 1), count_include_pad=True)
    return _convolution(pooled, channels, _POINT, f"{name}_tower_2_conv")


def _tower(data: Any, name: str, steps: Sequence[Step]) -> Any:
    """Convolutions one after another."""
    for place, (channels, kernel, *strides) in enumerate(steps):
        suffix = f"_conv_{place}" if place else "_conv"
        stride, padding = (strides[0], (0, 0)) if strides else (1, None)
        data = _convolution(data, channels, kernel, f"{name}{suffix}", stride=stride, padding=padding)
    return data


def _convolution(
    data: Any,
    channels: int,
    kernel: tuple[int, int],
    name: str,
    *,
    stride: int = 1,
    padding: tuple[int, int] | None = None,
) -> Any:
    """Convolution, batch norm and ReLU, of the same size unless ``padding`` says otherwise."""
    net = layers.conv2d(
        data,
        channels=channels,
        kernel_size=kernel,
        strides=(stride, stride),
        padding=padding if padding is not None else (kernel[0] // 2, kernel[1] // 2),
        name=f"{name}_conv1",
    )
    return nn.relu(layers.batch_norm_infer(net, epsilon=2e-5, scale=False, name=f"{name}_bn"))
