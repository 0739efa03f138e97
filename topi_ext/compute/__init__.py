"""Tensor-expression computes: the mathematics of each kernel, with layouts as parameters."""

from topi_ext.compute.convolution import conv1d, conv2d, conv3d
from topi_ext.compute.pooling import Pooling, avg_pool2d, max_pool2d
from topi_ext.compute.transposed import conv_transpose
from topi_ext.compute.winograd import winograd

__all__ = ["Pooling", "avg_pool2d", "conv1d", "conv2d", "conv3d", "conv_transpose", "max_pool2d", "winograd"]
