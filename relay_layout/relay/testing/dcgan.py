"""The generator of DCGAN: Radford, Metz, Chintala 2015, "Unsupervised Representation Learning with Deep
Convolutional Generative Adversarial Networks", arXiv:1511.06434."""

from typing import Any

import tvm

from relay_layout.relay import nn, reshape, tanh
from relay_layout.relay.analysis import free_vars
from relay_layout.relay.expression import Function, var
from relay_layout.relay.testing import layers
from relay_layout.relay.testing.init import create_workload


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    code: Any = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """The network from a vector of ``random_len`` numbers, or from ``code``, to an image.

    ``oshape`` is (channels, 64, 64) whatever the layout. ValueError for images of another size, and for
    layouts other than NCHW and NHWC.
    """
    if tuple(oshape[-2:]) != (64, 64):
        raise ValueError(f"DCGAN makes images of 64x64, not {oshape[-2]}x{oshape[-1]}")
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"layout is 'NCHW' or 'NHWC', not '{layout}'")
    data = var("data", shape=(batch_size, random_len), dtype=dtype) if code is None else code
    net = nn.relu(nn.dense(data, var("dense_weight"), units=16 * 8 * ngf))
    net = reshape(net, (-1, 8 * ngf, 4, 4) if layout == "NCHW" else (-1, 4, 4, 8 * ngf))
    for index, channels in enumerate((4 * ngf, 2 * ngf, ngf), 2):
        net = _doubled(net, channels, layout, f"g{index}_deconv")
        net = layers.batch_norm_infer(net, scale=False, axis=layout.index("C"), name=f"g{index}_batch_norm")
        net = nn.relu(net)
    net = tanh(_doubled(net, oshape[0], layout, "g5_deconv"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The network with random weights."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, None, layout, dtype))


def _doubled(data: Any, channels: int, layout: str, name: str) -> Any:
    """An image of twice the size in both directions."""
    return layers.conv2d_transpose(
        data,
        channels=channels,
        kernel_size=(4, 4),
        strides=(2, 2),
        padding=(1, 1),
        data_layout=layout,
        kernel_layout="IOHW" if layout == "NCHW" else "HWOI",
        name=name,
    )
