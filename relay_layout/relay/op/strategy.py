"""``relay.op.strategy``: what layout callbacks asked of it. There are no strategies."""

from collections.abc import Sequence

from relay_layout.relay.missing import refuser

__getattr__ = refuser(__name__)

_KERNELS = {"NCHW": "OIHW", "NHWC": "HWOI"}
"""The layout of a depthwise kernel, by that of the data."""


def is_depthwise_conv2d(
    data_shape: Sequence[int], data_layout: str, kernel_shape: Sequence[int], kernel_layout: str, groups: int
) -> bool:
    """Whether a convolution has a group for each channel, and one result of each.

    As in Relay, of data in NCHW with kernels in OIHW, and in NHWC with kernels in HWOI.
    """
    if _KERNELS.get(str(data_layout)) != str(kernel_layout):
        return False
    channels = data_shape[str(data_layout).index("C")]
    return bool(channels == kernel_shape[str(kernel_layout).index("O")] == groups)
