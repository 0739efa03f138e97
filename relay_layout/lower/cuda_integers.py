"""Convolutions and matrix products of bytes on the tensor cores of a GPU."""

import numpy as np
from tvm import relax

from relay_layout.ir import Expression, shape_of
from relay_layout.lower.cuda_legalize import product_call, with_channels
from relay_layout.lower.integers import Kernel, dot_products
from relay_layout.targets.cuda import CudaTarget, padded_channels
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.workload import ConvolutionWorkload


def integer_kernel(target: CudaTarget) -> Kernel:
    """What calls kernels of bytes for a target: implicit GEMMs where channels are last, loops elsewhere."""

    def call(
        builder: relax.BlockBuilder,
        workload: ConvolutionWorkload,
        data: Expression,
        weight: np.ndarray,
        pad_value: int,
    ) -> Expression:
        if not _is_product(workload, target):
            return dot_products(builder, workload, data, weight, pad_value)
        inputs = workload.in_channels
        gemm = GemmConvolution(
            batch=workload.batch * (1 if workload.data_layout == "NHWC" else workload.in_width),
            in_height=workload.in_height,
            in_width=workload.in_width if workload.data_layout == "NHWC" else 1,
            in_channels=padded_channels(inputs) if workload.groups == 1 else inputs,
            out_channels=workload.out_channels,
            kernel=workload.kernel,
            strides=workload.strides,
            padding=workload.padding,
            dilation=workload.dilation,
            groups=workload.groups,
            dtype=workload.dtype,
        )
        data, plain = with_channels(builder, data, weight.transpose(0, 2, 3, 1), gemm.in_channels)
        extents = (shape_of(data) or ())[:-1]
        if workload.data_layout == "NHWC":
            extents = (gemm.batch, gemm.out_height, gemm.out_width)
        return product_call(builder, data, plain, gemm, extents, target, "conv2d_int8", pad_value)

    return call


def _is_product(workload: ConvolutionWorkload, target: CudaTarget) -> bool:
    layouts = {workload.data_layout, workload.out_layout}
    last = layouts in ({"NHWC"}, {"NWC"}, {"WC"})
    return last and not workload.is_depthwise and target.multiplies_bytes(workload.dtype)


__all__ = ["integer_kernel"]
