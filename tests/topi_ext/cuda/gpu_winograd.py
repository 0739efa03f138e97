"""Winograd's convolution as functions and numbers, its three kernels one after the other."""

import numpy as np
from gpu_cases import Run, convolve, simulated
from tvm import te, tirx, topi

from topi_ext.cuda.compute.winograd import (
    pack_winograd,
    products_shape,
    transformed_image,
    transformed_products,
    winograd_products,
)
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.schedule.implicit_gemm import schedule_product
from topi_ext.cuda.schedule.winograd import schedule_transform
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs, product_of
from topi_ext.cuda.workload import GemmConvolution


def image_function(work: GemmConvolution, knobs: WinogradGemmKnobs) -> tirx.PrimFunc:
    data = te.placeholder((work.batch, work.in_height, work.in_width, work.in_channels), "float32", "data")
    return te.create_prim_func([data, transformed_image(data, work, knobs)])


def product_function(work: GemmConvolution, knobs: WinogradGemmKnobs) -> tirx.PrimFunc:
    product = product_of(work, knobs.tile)
    spread = te.placeholder((product.batch, 1, 1, product.in_channels), "float32", "spread")
    channels = -(-work.in_channels // knobs.product.block_k) * knobs.product.block_k
    places, _, columns = products_shape(work, knobs)
    weight = te.placeholder((places, columns, channels), "float32", "weight")
    return te.create_prim_func([spread, weight, winograd_products(spread, weight, work, knobs)])


def result_function(work: GemmConvolution, knobs: WinogradGemmKnobs) -> tirx.PrimFunc:
    """With bias, residual and ReLU."""
    products = te.placeholder(products_shape(work, knobs), "float32", "products")
    bias = te.placeholder((1, 1, 1, work.out_channels), "float32", "bias")
    extents = (work.batch, work.out_height, work.out_width, work.out_channels)
    residual = te.placeholder(extents, "float32", "residual")
    biased = topi.add(transformed_products(products, work, knobs), bias)
    active = topi.nn.relu(topi.add(biased, residual))
    out = te.compute(active.shape, lambda *i: active(*i), name="out")
    return te.create_prim_func([products, bias, residual, out])


def scheduled_transform(func: tirx.PrimFunc) -> tirx.PrimFunc:
    schedule = schedule_transform(func)
    assert schedule is not None
    return schedule.mod["main"]


def scheduled_products(work: GemmConvolution, knobs: WinogradGemmKnobs, sm: Multiprocessor) -> tirx.PrimFunc:
    func = product_function(work, knobs)
    schedule = schedule_product(func, product_of(work, knobs.tile), knobs.product, sm)
    assert schedule is not None
    return schedule.mod["main"]


def winograd_error(
    work: GemmConvolution, knobs: WinogradGemmKnobs, sm: Multiprocessor, run: Run | None = None
) -> float:
    """The largest error of simulated launches, relative to the largest result; numpy's is in float64."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    data = normal(work.batch, work.in_height, work.in_width, work.in_channels)
    weight = normal(work.out_channels, 3, 3, work.in_channels)
    expected = convolve(data, weight, work)
    bias, residual = normal(work.out_channels), normal(*expected.shape)
    packed = pack_winograd(weight, work, knobs)
    spread = simulated(scheduled_transform(image_function(work, knobs)), sm, data, run=run)
    products = simulated(scheduled_products(work, knobs, sm), sm, spread, packed, run=run)
    transform = scheduled_transform(result_function(work, knobs))
    out = simulated(transform, sm, products, bias, residual, run=run)
    expected = np.maximum(expected + bias + residual, 0)
    return float(np.abs(out - expected).max() / np.abs(expected).max())
