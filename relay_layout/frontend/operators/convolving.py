"""Relax's convolutions by their spatial dimensions, channels first, as PyTorch and ONNX have them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tvm import relax

from relay_layout.ir import Expression


class ConvolutionOperator(NamedTuple):
    """A convolution of Relax, and the layouts in which it takes data and kernel."""

    operator: Callable[..., Expression]
    data_layout: str
    kernel_layout: str


CONVOLUTIONS_BY_RANK: Mapping[int, ConvolutionOperator] = {
    1: ConvolutionOperator(relax.op.nn.conv1d, "NCW", "OIW"),
    2: ConvolutionOperator(relax.op.nn.conv2d, "NCHW", "OIHW"),
    3: ConvolutionOperator(relax.op.nn.conv3d, "NCDHW", "OIDHW"),
}

TRANSPOSED_BY_RANK: Mapping[int, ConvolutionOperator] = {
    1: ConvolutionOperator(relax.op.nn.conv1d_transpose, "NCW", "IOW"),
    2: ConvolutionOperator(relax.op.nn.conv2d_transpose, "NCHW", "IOHW"),
    3: ConvolutionOperator(relax.op.nn.conv3d_transpose, "NCDHW", "IODHW"),
}
