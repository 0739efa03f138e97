"""Convolutions as kernels of their own, for measuring them: no epilogue but the rounding of the result."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import te, tirx

from topi_ext.cuda.codegen.build import PIPELINE
from topi_ext.cuda.codegen.nvcc import machine_code
from topi_ext.cuda.compute.depthwise import depthwise_conv2d, pack_depthwise
from topi_ext.cuda.compute.implicit_gemm import pack_weight, padded, partial_products, result_of
from topi_ext.cuda.compute.winograd import (
    pack_winograd,
    products_shape,
    transformed_image,
    transformed_products,
    winograd_products,
)
from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs, check_depthwise
from topi_ext.cuda.gemm_knobs import GemmKnobs, check
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.schedule.depthwise import schedule_depthwise
from topi_ext.cuda.schedule.elementwise import schedule_elementwise
from topi_ext.cuda.schedule.implicit_gemm import schedule_product
from topi_ext.cuda.schedule.winograd import schedule_transform
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs, check_winograd, product_of
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution, NhwcConvolution
from topi_ext.errors import CudaError

PRODUCT, SUM = "product", "sum"
"""Names of the functions: the product of whole sums or of slices, and what adds the slices."""

IMAGE, RESULT = "image", "result"
"""Names of those before and after a Winograd product: the transforms of the image and of the products."""

Calls = list[tuple[str, tuple[int, ...]]]
"""Functions in the order in which they are called, each with the places of its arguments: 0 is the data, 1
the packed weight, the last one the result, and what is between them one function hands to the next.
"""

Launch = Callable[[], None]

Convolution = GemmConvolution | DepthwiseConvolution
Knobs = GemmKnobs | WinogradGemmKnobs | DepthwiseKnobs


def result_dtype(workload: NhwcConvolution) -> str:
    """The dtype that results have in a network: integers stay sums, as their scales are not known here."""
    return workload.sum_dtype if workload.sum_dtype == "int32" else workload.data_dtype


def packed(weight: np.ndarray, workload: Convolution, knobs: Knobs) -> np.ndarray:
    """An OHWI weight as the kernel reads it."""
    if isinstance(workload, DepthwiseConvolution):
        return pack_depthwise(weight, workload)
    if isinstance(knobs, WinogradGemmKnobs):
        return pack_winograd(weight, workload, knobs)
    assert isinstance(knobs, GemmKnobs)
    return pack_weight(weight, workload, knobs)


def kernel_calls(knobs: Knobs) -> Calls:
    """How the functions of :func:`kernel_module` are called."""
    if isinstance(knobs, WinogradGemmKnobs):
        return [(IMAGE, (0, 2)), (PRODUCT, (2, 1, 3)), (RESULT, (3, 4))]
    if isinstance(knobs, GemmKnobs) and knobs.split_k > 1:
        return [(PRODUCT, (0, 1, 2)), (SUM, (2, 3))]
    return [(PRODUCT, (0, 1, 2))]


def launcher(module: Any, calls: Sequence[tuple[str, Sequence[int]]], tensors: Sequence[Any]) -> Launch:
    """A call that launches a compiled module's functions in the order of ``calls``, and waits for nothing.

    ``tensors`` are the arguments by their places.
    """
    functions = [(module[name], [tensors[place] for place in places]) for name, places in calls]

    def launch() -> None:
        for function, operands in functions:
            function(*operands)

    return launch


def kernel_arguments(module: tvm.IRModule, calls: Calls) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each argument by its place."""
    found: dict[int, Any] = {}
    for name, places in calls:
        found |= dict(zip(places, module[name].params, strict=True))
    return [(tuple(map(int, found[place].shape)), str(found[place].dtype)) for place in sorted(found)]


def kernel_module(workload: Convolution, knobs: Knobs, multiprocessor: Multiprocessor) -> tvm.IRModule:
    """Scheduled functions, which :func:`kernel_calls` names.

    CudaError for knobs that do not fit.
    """
    data = te.placeholder(
        workload.data_shape,
        workload.data_dtype,
        "data",
    )
    if isinstance(workload, DepthwiseConvolution):
        assert isinstance(knobs, DepthwiseKnobs)
        found = _depthwise(data, workload, knobs, multiprocessor)
    elif isinstance(knobs, WinogradGemmKnobs):
        found = _winograd(data, workload, knobs, multiprocessor)
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
    return {PRODUCT: schedule_depthwise(func, knobs)}


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


def _winograd(
    data: te.Tensor, workload: GemmConvolution, knobs: WinogradGemmKnobs, multiprocessor: Multiprocessor
) -> dict[str, Any]:
    check_winograd(workload, knobs, multiprocessor)
    product = product_of(workload, knobs.tile)
    _, columns, depth = padded(product, knobs.product)
    image = transformed_image(data, workload, knobs)
    spread = te.placeholder(image.shape, image.dtype, "spread")
    weight = te.placeholder((product.groups, columns, depth), workload.weight_dtype, "weight")
    products = te.placeholder(products_shape(workload, knobs), workload.sum_dtype, "products")
    multiplied = te.create_prim_func([spread, weight, winograd_products(spread, weight, workload, knobs)])
    result = te.create_prim_func([products, transformed_products(products, workload, knobs)])
    return {
        IMAGE: schedule_transform(te.create_prim_func([data, image])),
        PRODUCT: schedule_product(multiplied, product, knobs.product, multiprocessor),
        RESULT: schedule_transform(result),
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
