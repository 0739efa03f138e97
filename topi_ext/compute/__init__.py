"""Tensor-expression computes: the mathematics of each kernel, with layouts as parameters."""

from topi_ext.compute.convolution import conv2d
from topi_ext.compute.pooling import avg_pool2d, max_pool2d

__all__ = ["avg_pool2d", "conv2d", "max_pool2d"]
