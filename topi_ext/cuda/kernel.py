"""Implicit GEMMs as kernels of their own, for measuring them: no epilogue but the rounding of the result."""

from typing import Any

import tvm
from tvm import te, tirx

from topi_ext.compute.implicit_gemm import padded, partial_products, result_of
from topi_ext.cuda.build import PIPELINE
from topi_ext.cuda.knobs import GemmKnobs, check
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.nvcc import machine_code
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.errors import CudaError
from topi_ext.schedule.cuda.elementwise import schedule_elementwise
from topi_ext.schedule.cuda.implicit_gemm import schedule_product

PRODUCT, SUM = "product", "sum"
"""Names of the functions: the product of whole sums or of slices, and what adds the slices."""


def result_dtype(workload: GemmConvolution) -> str:
    """That of a network's tensors: integers stay sums, as their scales are not known here."""
    return workload.sum_dtype if workload.sum_dtype == "int32" else workload.data_dtype


def kernel_module(
    workload: GemmConvolution, knobs: GemmKnobs, multiprocessor: Multiprocessor
) -> tvm.IRModule:
    """Scheduled functions: "product" of (data, packed weight, result), or where the depth is split of (data,
    packed weight, slices), with "sum" of (slices, result).

    CudaError for knobs that do not fit.
    """
    check(workload, knobs, multiprocessor)
    rows, columns, depth = padded(workload, knobs)
    image = (workload.batch, workload.in_height, workload.in_width, workload.in_channels)
    extents = (workload.batch, workload.out_height, workload.out_width)
    data = te.placeholder(image, workload.data_dtype, "data")
    weight = te.placeholder((workload.groups, columns, depth), workload.weight_dtype, "weight")
    sums = partial_products(data, weight, workload, knobs)
    dtype = result_dtype(workload)

    def rounded(total: te.Tensor) -> te.Tensor:
        return te.compute(total.shape, lambda *index: total(*index).astype(dtype), name="out")

    if knobs.split_k == 1:
        functions = {PRODUCT: [data, weight, rounded(result_of(sums, workload, extents, 1))]}
    else:
        slices = te.placeholder((knobs.split_k, rows, columns), workload.sum_dtype, "slices")
        total = rounded(result_of(slices, workload, extents, knobs.split_k))
        functions = {PRODUCT: [data, weight, sums], SUM: [slices, total]}
    scheduled = {}
    for name, tensors in functions.items():
        func = te.create_prim_func(tensors)
        found = (
            schedule_product(func, workload, knobs, multiprocessor)
            if name == PRODUCT
            else schedule_elementwise(func)
        )
        if found is None:
            raise CudaError(f"the {name} of {workload.to_json()} cannot be scheduled")
        scheduled[name] = _named(found.mod["main"], name)
    return tvm.IRModule(scheduled)


def compile_module(module: tvm.IRModule, multiprocessor: Multiprocessor) -> Any:
    """The functions of :func:`kernel_module` as a runtime module, machine code by nvcc."""
    with machine_code({}, multiprocessor.arch):
        return tvm.compile(module, multiprocessor.target(), tir_pipeline=PIPELINE)


def _named(func: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    return func.with_attr({"global_symbol": name, "tirx.is_scheduled": True})


__all__ = ["PRODUCT", "SUM", "compile_module", "kernel_module", "result_dtype"]
