"""Kernels of the CUDA families as functions, lowered functions and numbers."""

import re
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np
import pytest
import tvm
from gpu_bulk import maps_of
from gpu_simulator import Grid
from tvm import te, tirx, topi
from tvm_ffi import structural_map

from topi_ext.cuda.codegen.build import PIPELINE
from topi_ext.cuda.codegen.byte_vectors import pack_bytes
from topi_ext.cuda.codegen.copy_order import order_copies
from topi_ext.cuda.codegen.dependent_launch import wait_for_kernel_before
from topi_ext.cuda.codegen.fragments import lower_fragments
from topi_ext.cuda.codegen.swizzle import swizzle_tiles
from topi_ext.cuda.codegen.warpgroups import order_warpgroups
from topi_ext.cuda.codegen.wide_copies import widen_copies
from topi_ext.cuda.compute.depthwise import depthwise_conv2d, pack_depthwise
from topi_ext.cuda.compute.implicit_gemm import (
    pack_weight,
    padded,
    partial_products,
    result_of,
    rounded_to_tf32,
)
from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.schedule.depthwise import schedule_depthwise
from topi_ext.cuda.schedule.implicit_gemm import schedule_product
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution, NhwcConvolution
from topi_ext.workloads.convolution import BYTES

Run = Callable[[tirx.PrimFunc, Multiprocessor, dict[str, Any]], None]
"""What launches a scheduled function on an architecture: arguments by the names of its parameters, flat."""


def bound(dtype: str) -> float:
    """Results are rounded to the dtype; sums of a few hundred products err less than that in float16."""
    return {"float16": 1e-3, "uint8": 0.5 / 255, "int8": 0.5 / 255}.get(dtype, 1e-6)


def swept(names: Iterable[str], long: Container[str]) -> list[Any]:
    """The names as parameters, those that take long left to the sweep."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in long else []) for name in names]


ZERO_POINT, OUT_ZERO = 3, 7
"""Of quantized data, which lies around the image, and of results."""


def workload(
    batch: int,
    image: tuple[int, int],
    channels: tuple[int, int],
    kernel: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (1, 1, 1, 1),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    dtype: str = "float16",
) -> GemmConvolution:
    return GemmConvolution(batch, *image, *channels, kernel, strides, padding, dilation, groups, dtype)


def product_function(work: GemmConvolution, knobs: GemmKnobs) -> tirx.PrimFunc:
    """Convolution, bias, residual and ReLU, of integers bias and requantization; the slices alone where the
    depth is split.
    """
    _, columns, depth = padded(work, knobs)
    image = (work.batch, work.in_height, work.in_width, work.in_channels)
    data = te.placeholder(image, work.data_dtype, "data")
    weight = te.placeholder((work.groups, columns, depth), work.weight_dtype, "weight")
    sums = partial_products(data, weight, work, knobs, ZERO_POINT if work.dtype in BYTES else 0)
    if knobs.split_k > 1:
        return te.create_prim_func([data, weight, sums])
    extents = (work.batch, work.out_height, work.out_width)
    if work.dtype in BYTES:
        return te.create_prim_func([data, weight, *_requantized(result_of(sums, work, extents, 1), work)])
    bias = te.placeholder((1, 1, 1, work.out_channels), "float32", "bias")
    residual = te.placeholder((*extents, work.out_channels), work.data_dtype, "residual")
    biased = topi.add(result_of(sums, work, extents, 1), bias)
    summed = te.compute(biased.shape, lambda *i: biased(*i) + residual(*i).astype("float32"), name="summed")
    active = topi.nn.relu(summed)
    out = te.compute(active.shape, lambda *i: active(*i).astype(work.data_dtype), name="out")
    return te.create_prim_func([data, weight, bias, residual, out])


def depthwise(
    batch: int,
    image: tuple[int, int],
    channels: int,
    kernel: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (1, 1, 1, 1),
    dilation: tuple[int, int] = (1, 1),
    multiplier: int = 1,
    dtype: str = "float16",
) -> DepthwiseConvolution:
    return DepthwiseConvolution(
        batch, *image, channels, channels * multiplier, kernel, strides, padding, dilation, channels, dtype
    )


def depthwise_function(work: DepthwiseConvolution, knobs: DepthwiseKnobs) -> tirx.PrimFunc:
    """A depthwise convolution with bias and ReLU, of integers with bias and requantization."""
    data = te.placeholder(
        (work.batch, work.in_height, work.in_width, work.in_channels), work.data_dtype, "data"
    )
    weight = te.placeholder((*work.kernel, work.out_channels), work.weight_dtype, "weight")
    pad_value = ZERO_POINT if work.dtype in BYTES else 0
    sums = depthwise_conv2d(data, weight, work, knobs, pad_value)
    if work.dtype in BYTES:
        return te.create_prim_func([data, weight, *_requantized(sums, work)])
    bias = te.placeholder((1, 1, 1, work.out_channels), "float32", "bias")
    active = topi.nn.relu(topi.add(sums, bias))
    out = te.compute(active.shape, lambda *i: active(*i).astype(work.data_dtype), name="out")
    return te.create_prim_func([data, weight, bias, out])


def _requantized(sums: te.Tensor, work: NhwcConvolution) -> list[te.Tensor]:
    """Offsets, scales, and the result as uint8."""
    offset = te.placeholder((1, 1, 1, work.out_channels), "int32", "bias")
    scale = te.placeholder((1, 1, 1, work.out_channels), "float32", "scale")
    scaled = topi.round(topi.multiply(topi.add(sums, offset).astype("float32"), scale))
    limited = topi.clip(topi.add(scaled, tirx.const(OUT_ZERO, "float32")), 0.0, 255.0)
    out = te.compute(limited.shape, lambda *i: limited(*i).astype("uint8"), name="out")
    return [offset, scale, out]


def scheduled_product(work: GemmConvolution, knobs: GemmKnobs, sm: Multiprocessor) -> tirx.PrimFunc:
    schedule = schedule_product(product_function(work, knobs), work, knobs, sm)
    assert schedule is not None
    return schedule.mod["main"]


def scheduled_depthwise(work: DepthwiseConvolution, knobs: DepthwiseKnobs) -> tirx.PrimFunc:
    schedule = schedule_depthwise(depthwise_function(work, knobs), knobs)
    assert schedule is not None
    return schedule.mod["main"]


def lowered(func: tirx.PrimFunc, sm: Multiprocessor, swizzled: bool = True) -> tirx.PrimFunc:
    """The device function, as code generation gets it but for TVM's last rewriting of intrinsics, and for the
    order of tiles in shared memory unless ``swizzled``.
    """
    named = func.with_attr({"global_symbol": "main", "tirx.is_scheduled": True})
    module = tirx.transform.BindTarget(sm.target())(tvm.IRModule({"main": named}))
    passes = tirx.get_tir_pipeline(PIPELINE)[0]
    module = widen_copies()(order_warpgroups()(lower_fragments()(passes(module))))
    module = swizzle_tiles()(module) if swizzled else module
    module = wait_for_kernel_before()(pack_bytes()(order_copies()(module)))
    (device,) = [found for found in module.functions.values() if "kernel" in found.attrs["global_symbol"]]
    return device


def shared_size(device: tirx.PrimFunc) -> int:
    """Bytes of shared memory that a device function is launched with."""
    (size,) = re.findall(r"alloc_buffer\(\((\d+),\), \"uint8\", scope=\"shared.dyn\"", device.script())
    return int(size)


def impatient(device: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel without waiting for its copies: it lets more of them be under way than there are."""

    def on_wait(node: tirx.AttrStmt) -> tirx.AttrStmt:
        if node.attr_key != "async_wait_inflight_count":
            return node
        return tirx.AttrStmt(node.node, node.attr_key, tirx.const(9, "int32"), node.body)

    return device.with_body(structural_map(device.body, (tirx.AttrStmt, on_wait)))


def convolve(data: np.ndarray, weight: np.ndarray, work: NhwcConvolution, pad_value: int = 0) -> np.ndarray:
    """NHWC data by OHWI weights (input channels of a group), in float64."""
    top, left, bottom, right = work.padding
    widths = [(0, 0), (top, bottom), (left, right), (0, 0)]
    image = np.pad(data.astype(np.float64), widths, constant_values=pad_value)
    result = np.zeros((work.batch, work.out_height, work.out_width, work.out_channels))
    for group in range(work.groups):
        inputs = slice(group * work.group_channels, (group + 1) * work.group_channels)
        outputs = slice(group * work.columns, (group + 1) * work.columns)
        for i in range(work.kernel[0]):
            for j in range(work.kernel[1]):
                y, x = i * work.dilation[0], j * work.dilation[1]
                rows = slice(y, y + (work.out_height - 1) * work.strides[0] + 1, work.strides[0])
                columns = slice(x, x + (work.out_width - 1) * work.strides[1] + 1, work.strides[1])
                taps = weight[outputs, i, j].astype(np.float64).T
                result[..., outputs] += image[:, rows, columns, inputs] @ taps
    return result


def product_error(
    work: GemmConvolution,
    knobs: GemmKnobs,
    sm: Multiprocessor,
    device: tirx.PrimFunc | None = None,
    waited: dict[str, int] | None = None,
    run: Run | None = None,
) -> float:
    """The largest error of a simulated launch, relative to the largest result.

    ``waited`` takes in how often its instructions waited for banks of shared memory. ``run`` launches in
    place of the simulator of lowered functions, which runs ``device``.
    """
    random = np.random.default_rng(0)
    data, weight = _operands(random, work)
    if work.dtype == "tf32":
        expected = convolve(rounded_to_tf32(data), rounded_to_tf32(weight), work)
    else:
        expected = convolve(data, weight, work, ZERO_POINT if work.dtype in BYTES else 0)
    arguments: dict[str, Any] = {"data": data.ravel(), "weight": pack_weight(weight, work, knobs).ravel()}
    launch = _launcher(scheduled_product(work, knobs, sm), sm, device, waited, run)
    if knobs.split_k > 1:
        rows, columns, _ = padded(work, knobs)
        sums = np.full(knobs.split_k * rows * columns, UNWRITTEN[work.sum_dtype], work.sum_dtype)
        launch(arguments | {"product": sums})
        whole = sums.reshape(knobs.split_k, rows, columns).sum(0)[: work.rows, : work.columns]
        found = whole.reshape(expected.shape)
    elif work.dtype in BYTES:
        found, expected = _requantized_on(launch, arguments, expected, random)
    else:
        bias = random.standard_normal(work.out_channels).astype(np.float32)
        residual = random.standard_normal(expected.shape).astype(work.data_dtype)
        expected = np.maximum(expected + bias + residual, 0)
        out = np.full(expected.size, np.nan, work.data_dtype)
        launch(arguments | {"bias": bias, "residual": residual.ravel(), "out": out})
        found = out.reshape(expected.shape)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _launched(device: tirx.PrimFunc, arguments: dict[str, Any], waited: dict[str, int] | None = None) -> None:
    grid = Grid(device, arguments)
    grid.run()
    if waited is not None:
        waited.update(grid.waits)


def _launcher(
    scheduled: tirx.PrimFunc,
    sm: Multiprocessor,
    device: tirx.PrimFunc | None = None,
    waited: dict[str, int] | None = None,
    run: Run | None = None,
) -> Callable[[dict[str, Any]], None]:
    """What launches a scheduled function, on the simulator or by ``run``."""
    if run is not None:
        return lambda arguments: run(scheduled, sm, arguments)
    found = device or lowered(scheduled, sm)
    return lambda arguments: _launched(found, arguments | maps_of(scheduled, arguments), waited)


def simulated(
    func: tirx.PrimFunc,
    sm: Multiprocessor,
    *arrays: np.ndarray,
    run: Run | None = None,
    waited: dict[str, int] | None = None,
) -> np.ndarray:
    """What a scheduled function of floats makes of ``arrays``, not a number where it writes nothing.

    ``waited`` and ``run`` are as for :func:`product_error`.
    """
    result = func.params[-1]
    out = np.full([int(extent) for extent in result.shape], np.nan, str(result.dtype))
    names = [parameter.name for parameter in func.params]
    flat = {name: array.reshape(-1) for name, array in zip(names, (*arrays, out), strict=True)}
    _launcher(func, sm, waited=waited, run=run)(flat)
    return out


UNWRITTEN = {"float32": np.nan, "int32": 1 << 29}
"""What results hold before they are written."""


def _values(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype in BYTES:
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return random.standard_normal(shape).astype(dtype)


def depthwise_error(
    work: DepthwiseConvolution, knobs: DepthwiseKnobs, sm: Multiprocessor, run: Run | None = None
) -> float:
    """As :func:`product_error`, of a depthwise convolution."""
    random = np.random.default_rng(0)
    data, weight = _operands(random, work)
    expected = convolve(data, weight, work, ZERO_POINT if work.dtype in BYTES else 0)
    arguments = {"data": data.ravel(), "weight": pack_depthwise(weight, work).ravel()}
    launch = _launcher(scheduled_depthwise(work, knobs), sm, run=run)
    if work.dtype in BYTES:
        found, expected = _requantized_on(launch, arguments, expected, random)
    else:
        bias = random.standard_normal(work.out_channels).astype(np.float32)
        expected = np.maximum(expected + bias, 0)
        out = np.full(expected.size, np.nan, work.data_dtype)
        launch(arguments | {"bias": bias, "out": out})
        found = out.reshape(expected.shape)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _operands(random: np.random.Generator, work: NhwcConvolution) -> list[np.ndarray]:
    """NHWC data and OHWI weights."""
    shapes = (
        (work.batch, work.in_height, work.in_width, work.in_channels),
        (work.out_channels, *work.kernel, work.group_channels),
    )
    dtypes = work.data_dtype, work.weight_dtype
    return [_values(random, shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]


def _requantized_on(
    launch: Callable[[dict[str, Any]], None],
    arguments: dict[str, Any],
    sums: np.ndarray,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """What a launch gives, and what it should for such sums."""
    channels = sums.shape[-1]
    offset = random.integers(-999, 999, channels, np.int32)
    scale = random.uniform(0.5, 1.0, channels).astype(np.float32) / np.float32(sums.std() / 40)
    scaled = np.rint((sums + offset).astype(np.float32) * scale)
    out = np.full(sums.size, 255, np.uint8)
    launch(arguments | {"bias": offset, "scale": scale, "out": out})
    return out.reshape(sums.shape).astype(np.float64), np.clip(scaled + OUT_ZERO, 0, 255)
