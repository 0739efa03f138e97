"""Relax operators to the computes of ``topi_ext``: one entry per operator.

Operators without an entry go to TVM's own legalisation. Constant weights are packed on the way into
the layout that the kernel reads fastest.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from tvm import relax, te, topi

from relay_layout.ir import (
    Constant,
    Expression,
    as_extent,
    constant,
    constant_array,
    is_static,
    shape_of,
)
from relay_layout.layout_transform import apply
from relay_layout.targets.offers import packed_kernel
from topi_ext import compute
from topi_ext.indexing import physical_axes

Legalizer = Callable[[relax.BlockBuilder, relax.Call], Expression]

OUT_ELEMENTWISE_FUSABLE = 4
"""TVM's operator pattern kind: elementwise consumers may join this function."""


def legalization_map() -> dict[str, Legalizer]:
    """For ``relax.transform.LegalizeOps(customize_legalize_map=...)``."""
    return {f"relax.{name}": legalizer for name, legalizer in _LEGALIZERS.items()}


def _conv2d(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    attributes = call.attrs
    data, weight = call.args
    data_layout, kernel_layout = str(attributes.data_layout), str(attributes.kernel_layout)
    groups = int(attributes.groups)
    if isinstance(weight, Constant) and kernel_layout in ("HWIO", "OHWI"):
        extents = dict(zip(kernel_layout, shape_of(weight) or (), strict=True))
        packed = packed_kernel(kernel_layout, extents["O"], groups > 1 and extents["I"] == 1)
        if packed != kernel_layout:
            weight = constant(apply(constant_array(weight), kernel_layout, packed))
            kernel_layout = packed

    def convolve(tensor: te.Tensor, kernel: te.Tensor) -> te.Tensor:
        return compute.conv2d(
            tensor,
            kernel,
            strides=_ints(attributes.strides),
            padding=_ints(attributes.padding),
            dilation=_ints(attributes.dilation),
            groups=groups,
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_layout=str(attributes.out_layout or data_layout),
            out_dtype=str(attributes.out_dtype) if attributes.out_dtype else None,
        )

    return _call(builder, convolve, "conv2d", data, weight)


def _matmul(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Rows by a constant matrix: a pointwise convolution whose pixels are the rows."""
    data, weight = call.args
    if not _is_dense(data, weight):
        return _default(builder, call)
    matrix = constant_array(weight)
    kernel_layout = "OI16o" if matrix.shape[1] % 16 == 0 else "IO"
    packed = constant(apply(matrix, "IO", kernel_layout))

    def product(rows: te.Tensor, kernel: te.Tensor) -> te.Tensor:
        return compute.conv2d(rows, kernel, data_layout="WC", kernel_layout=kernel_layout, out_layout="WC")

    return _call(builder, product, "dense", data, packed)


def _is_dense(data: Expression, weight: Expression) -> bool:
    shapes = shape_of(data), shape_of(weight)
    return (
        isinstance(weight, Constant)
        and all(shape is not None and len(shape) == 2 and is_static(shape) for shape in shapes)
        and str(data.ty.dtype) == str(weight.ty.dtype)
    )


def _default(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    return call.op.get_attr("FLegalize")(builder, call)


def _max_pool2d(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    window = _window(call)
    return _call(builder, lambda data: compute.max_pool2d(data, **window), "max_pool2d", call.args[0])


def _avg_pool2d(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    window = _window(call) | {"count_include_pad": bool(call.attrs.count_include_pad)}
    return _call(builder, lambda data: compute.avg_pool2d(data, **window), "avg_pool2d", call.args[0])


def _window(call: relax.Call) -> dict[str, Any]:
    """What both poolings take of a call."""
    attributes = call.attrs
    return {
        "kernel": _ints(attributes.pool_size),
        "strides": _ints(attributes.strides),
        "padding": _ints(attributes.padding),
        "dilation": _ints(attributes.dilation),
        "layout": str(attributes.layout),
        "out_shape": shape_of(call) or (),
    }


def _adaptive_avg_pool2d(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Down to one pixel it is a mean over rows and columns; otherwise TVM's own compute."""
    layout = str(call.attrs.layout)
    size = call.attrs.output_size
    data = call.args[0]
    shape = shape_of(data)
    axes = [
        place for place, (name, factor) in enumerate(physical_axes(layout)) if name in "HW" and not factor
    ]
    if size is None or _ints(size) != [1, 1] or shape is None:
        return _default(builder, call)

    def mean(tensor: te.Tensor) -> te.Tensor:
        # Of the tensor itself: symbols of the graph have no value inside the function.
        pixels = prod(as_extent(tensor.shape[axis]) for axis in axes)
        total = topi.sum(tensor, axis=axes, keepdims=True)
        if isinstance(pixels, int):
            return te.compute(
                total.shape, lambda *index: total(*index) * np.array(1.0 / pixels, str(tensor.dtype)).item()
            )
        return te.compute(total.shape, lambda *index: total(*index) / pixels.astype(tensor.dtype))

    return builder.call_te(mean, data, primfunc_name_hint="global_avg_pool2d")


def _call(builder: relax.BlockBuilder, function: Any, name: str, *arguments: Expression) -> Expression:
    return builder.call_te(
        function,
        *arguments,
        primfunc_name_hint=name,
        primfunc_attrs={"op_pattern": OUT_ELEMENTWISE_FUSABLE},
    )


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]


_LEGALIZERS: dict[str, Legalizer] = {
    "nn.conv2d": _conv2d,
    "matmul": _matmul,
    "nn.max_pool2d": _max_pool2d,
    "nn.avg_pool2d": _avg_pool2d,
    "nn.adaptive_avg_pool2d": _adaptive_avg_pool2d,
}
