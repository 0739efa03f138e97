"""Convolutions as kernels of their own, for measuring them: no epilogue but the rounding of the result."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import te, tirx

from topi_ext.compute.depthwise import depthwise_conv2d, pack_depthwise
from topi_ext.compute.implicit_gemm import pack_weight, padded, partial_products, result_of
from topi_ext.cuda.build import PIPELINE
from topi_ext.cuda.depthwise import DepthwiseKnobs, check_depthwise
from topi_ext.cuda.knobs import GemmKnobs, check
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.nvcc import machine_code
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution, NhwcConvolution
from topi_ext.errors import CudaError
from topi_ext.schedule.cuda.depthwise import schedule_depthwise
from topi_ext.schedule.cuda.elementwise import schedule_elementwise
from topi_ext.schedule.cuda.implicit_gemm import schedule_product

PRODUCT, SUM = "product", "sum"
"""Names of the functions: the product of whole sums or of slices, and what adds the slices."""


Convolution = GemmConvolution | DepthwiseConvolution
Knobs = GemmKnobs | DepthwiseKnobs


def result_dtype(workload: NhwcConvolution) -> str:
    """That of a network's tensors: integers stay sums, as their scales are not known here."""
    return workload.sum_dtype if workload.sum_dtype == "int32" else workload.data_dtype


def packed(weight: np.ndarray, workload: Convolution, knobs: Knobs) -> np.ndarray:
    """An OHWI weight as the kernel reads it."""
    if isinstance(workload, DepthwiseConvolution):
        return pack_depthwise(weight, workload)
    assert isinstance(knobs, GemmKnobs)
    return pack_weight(weight, workload, knobs)


def kernel_module(workload: Convolution, knobs: Knobs, multiprocessor: Multiprocessor) -> tvm.IRModule:
    """Scheduled functions: "product" of (data, packed weight, result), or where the depth is split of (data,
    packed weight, slices), with "sum" of (slices, result).

    CudaError for knobs that do not fit.
    """
    data = te.placeholder(
        (workload.batch, workload.in_height, workload.in_width, workload.in_channels),
        workload.data_dtype,
        "data",
    )
    if isinstance(workload, DepthwiseConvolution):
        assert isinstance(knobs, DepthwiseKnobs)
        found = _depthwise(data, workload, knobs, multiprocessor)
    else:
        assert isinstance(knobs, GemmKnobs)
        found = _products(data, workload, knobs, multiprocessor)
    for name, schedule in found.items():
        if schedule is None:
            raise CudaError(f"the {name} of {workload.to_json()} cannot be scheduled")
    return tvm.IRModule({name: _named(schedule.mod["main"], name) for name, schedule in found.items()})


def _depthwise(
    data: te.Tensor, workload: DepthwiseConvolution, knobs: DepthwiseKnobs, multiprocessor: Multiprocessor
) -> dict[str, Any]:
    check_depthwise(workload, knobs, multiprocessor)
    weight = te.placeholder((*workload.kernel, workload.out_channels), workload.weight_dtype, "weight")
    result = _rounded(depthwise_conv2d(data, weight, workload, knobs), workload)
    func = te.create_prim_func([data, weight, result])
    return {PRODUCT: schedule_depthwise(func, workload, knobs)}


def _products(
    data: te.Tensor, workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor
) -> dict[str, Any]:
    check(workload, knobs, multiprocessor)
    rows, columns, depth = padded(workload, knobs)
    extents = (workload.batch, workload.out_height, workload.out_width)
    weight = te.placeholder((workload.groups, columns, depth), workload.weight_dtype, "weight")
    sums = partial_products(data, weight, workload, knobs)
    if knobs.split_k == 1:
        whole = _rounded(result_of(sums, workload, extents, 1), workload)
        func = te.create_prim_func([data, weight, whole])
        return {PRODUCT: schedule_product(func, workload, knobs, multiprocessor)}
    slices = te.placeholder((knobs.split_k, rows, columns), workload.sum_dtype, "slices")
    whole = _rounded(result_of(slices, workload, extents, knobs.split_k), workload)
    product = te.create_prim_func([data, weight, sums])
    return {
        PRODUCT: schedule_product(product, workload, knobs, multiprocessor),
        SUM: schedule_elementwise(te.create_prim_func([slices, whole])),
    }


def _rounded(total: te.Tensor, workload: NhwcConvolution) -> te.Tensor:
    dtype = result_dtype(workload)
    return te.compute(total.shape, lambda *index: total(*index).astype(dtype), name="out")


def compile_module(
    module: tvm.IRModule, multiprocessor: Multiprocessor, known: Mapping[str, bytes] = MappingProxyType({})
) -> Any:
    """The functions of :func:`kernel_module` as a runtime module; machine code that ``known`` lacks, by the
    digest of its source, is compiled.
    """
    with machine_code(known, multiprocessor.arch):
        return tvm.compile(module, multiprocessor.target(), tir_pipeline=PIPELINE)


def _named(func: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    return func.with_attr({"global_symbol": name, "tirx.is_scheduled": True})


__all__ = [
    "PRODUCT",
    "SUM",
    "Convolution",
    "Knobs",
    "compile_module",
    "kernel_module",
    "packed",
    "result_dtype",
]
