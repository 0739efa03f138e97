"""Convolutions and matrix products of bytes on a GPU."""

from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from relay_layout.ir import Expression, is_static, shape_of, visit_functions
from relay_layout.layout import Layout
from relay_layout.lower.legalize.cuda import (
    CHANNELS_LAST,
    depthwise_call,
    is_blocked,
    product_call,
    with_channels,
)
from relay_layout.lower.legalize.integers import IntegerMutator, plain_loops
from relay_layout.rewrite.moving import emit_transform
from relay_layout.targets.cuda import CudaTarget, padded_channels
from topi_ext.cuda.multiprocessor import MOST_BLOCKS
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.workloads.convolution import BYTES, ConvolutionWorkload


def lower_integers(module: tvm.IRModule, target: CudaTarget) -> tvm.IRModule:
    """The module with kernels in place of products and convolutions of uint8 by constants of int8."""
    return visit_functions(_Lowering(module, target), module)


@mutator
class _Lowering(IntegerMutator):
    """Kernels are for sizes that are known."""

    def __init__(self, module: tvm.IRModule, target: CudaTarget) -> None:
        super().__init__(module)
        self.target = target

    def kernel(
        self,
        workload: ConvolutionWorkload,
        data: Expression,
        weight: np.ndarray,
        pad_value: int,
        *,
        any_size: bool = False,
    ) -> Expression:
        return integer_call(self.builder_, workload, data, weight, pad_value, self.target)


def integer_call(
    builder: relax.BlockBuilder,
    workload: ConvolutionWorkload,
    data: Expression,
    weight: np.ndarray,
    pad_value: int,
    target: CudaTarget,
) -> Expression:
    """A kernel of bytes with its OIHW ``weight``: an implicit GEMM where channels are last, loops elsewhere.

    Images whose channels lie in blocks are brought into NHWC, and results back.
    """
    if is_blocked(workload):
        # mma.sync takes rows of channels, which blocks of 4 or 32 cut into pieces.
        last = replace(workload, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")
        source, target_layout = Layout.parse(workload.data_layout), Layout.parse(workload.out_layout)
        moved = emit_transform(builder, data, source, CHANNELS_LAST, workload.dtype)
        result = builder.emit(integer_call(builder, last, moved, weight, pad_value, target))
        return emit_transform(builder, result, CHANNELS_LAST, target_layout, workload.out_dtype)
    if not _has_kernel(workload, target):
        return plain_loops(builder, workload, data, weight, pad_value)
    geometry: dict[str, Any] = {
        "batch": workload.batch * (1 if workload.data_layout == "NHWC" else workload.in_width),
        "in_height": workload.in_height,
        "in_width": workload.in_width if workload.data_layout == "NHWC" else 1,
        "out_channels": workload.out_channels,
        "kernel": workload.kernel,
        "strides": workload.strides,
        "padding": workload.padding,
        "dilation": workload.dilation,
        "groups": workload.groups,
        "dtype": workload.dtype,
    }
    inputs, plain = workload.in_channels, weight.transpose(0, 2, 3, 1)
    if workload.is_depthwise:
        depthwise = DepthwiseConvolution(in_channels=inputs, **geometry)
        return depthwise_call(builder, data, plain, depthwise, target, "depthwise_conv2d_int8", pad_value)
    channels = padded_channels(inputs) if workload.groups == 1 else inputs
    gemm = GemmConvolution(in_channels=channels, **geometry)
    data, plain = with_channels(builder, data, plain, channels)
    extents = (shape_of(data) or ())[:-1]
    if workload.data_layout == "NHWC":
        extents = (gemm.batch, gemm.out_height, gemm.out_width)
    return product_call(builder, data, plain, gemm, extents, target, "conv2d_int8", pad_value)


def _has_kernel(workload: ConvolutionWorkload, target: CudaTarget) -> bool:
    if not is_static([workload.batch, workload.in_height, workload.in_width]):
        return False
    layouts = {workload.data_layout, workload.out_layout}
    if workload.is_depthwise:
        fits = layouts == {"NHWC"} and workload.batch <= MOST_BLOCKS
        return fits and workload.dtype in BYTES
    return layouts in ({"NHWC"}, {"NWC"}, {"WC"}) and target.multiplies_bytes(workload.dtype)
