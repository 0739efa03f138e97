"""A network of three dense layers."""

from typing import Any

import tvm

from relay_layout.relay import nn
from relay_layout.relay.analysis import free_vars
from relay_layout.relay.expression import Function, var
from relay_layout.relay.testing import layers
from relay_layout.relay.testing.init import create_workload


def get_net(
    batch_size: int,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> Function:
    """Layers of 128, 64 and ``num_classes``, the first two with ReLU, and softmax."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = nn.relu(layers.dense_add_bias(nn.batch_flatten(data), units=128, name="fc1"))
    net = nn.relu(layers.dense_add_bias(net, units=64, name="fc2"))
    net = nn.softmax(layers.dense_add_bias(net, units=num_classes, name="fc3"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The network with random weights."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
