"""Calls of convolutions as kernels take them: weights packed, and Winograd's where it is the faster."""

from collections.abc import Callable
from typing import Any

from tvm import relax, te

from relay_layout.ir import Constant, Expression, constant, constant_array, operator_name, shape_of
from relay_layout.layout_transform import apply
from relay_layout.targets.convolutions import convolution_with, packed_kernel
from topi_ext.chooser import KernelChooser
from topi_ext.compute.convolution import workload_of
from topi_ext.compute.geometry import geometry_of
from topi_ext.kernel import convolve
from topi_ext.knobs import WinogradKnobs
from topi_ext.schedule.cpu.convolution import is_static
from topi_ext.winograd import transform_weight

OUT_ELEMENTWISE_FUSABLE = 4
"""TVM's operator pattern kind: elementwise consumers may join this function."""


def call_compute(
    builder: relax.BlockBuilder, function: Callable[..., te.Tensor], name: str, *arguments: Expression
) -> Expression:
    """A call of a compute whose function elementwise consumers may join."""
    return builder.call_te(
        function,
        *arguments,
        primfunc_name_hint=name,
        primfunc_attrs={"op_pattern": OUT_ELEMENTWISE_FUSABLE},
    )


def packed_weight(call: relax.Call) -> tuple[Expression, str]:
    """The weight in the layout that its kernel reads fastest, if it is constant, and that layout."""
    data, weight = call.args
    attributes = call.attrs
    kernel_layout = str(attributes.kernel_layout)
    shapes = [shape_of(data) or (), shape_of(weight) or ()]
    convolution = convolution_with(operator_name(call), attributes, shapes)
    if convolution is None or not isinstance(weight, Constant):
        return weight, kernel_layout
    packed = packed_kernel(convolution, kernel_layout, _out_layout(attributes))
    if packed == kernel_layout:
        return weight, kernel_layout
    return constant(apply(constant_array(weight), kernel_layout, packed)), packed


def convolution_options(attributes: Any, kernel_layout: str) -> dict[str, Any]:
    """What computes of convolutions take of a call's attributes."""
    return {
        "strides": ints(attributes.strides),
        "padding": ints(attributes.padding),
        "dilation": ints(attributes.dilation),
        "groups": int(attributes.groups),
        "data_layout": str(attributes.data_layout),
        "kernel_layout": kernel_layout,
        "out_layout": _out_layout(attributes),
        "out_dtype": str(attributes.out_dtype) if attributes.out_dtype else None,
    }


def winograd_call(builder: relax.BlockBuilder, call: relax.Call, kernels: KernelChooser) -> Expression | None:
    """A 2-D convolution as Winograd's, its weights transformed; None where another kernel was chosen."""
    data, weight = call.args
    if not isinstance(weight, Constant):
        return None
    packed, kernel_layout = packed_weight(call)
    placeholders = [te.placeholder(shape_of(part) or (), str(part.ty.dtype)) for part in (data, packed)]
    workload = workload_of(geometry_of("HW", *placeholders, **convolution_options(call.attrs, kernel_layout)))
    if not is_static(workload):
        return None
    knobs = kernels.choose(workload).knobs
    if not isinstance(knobs, WinogradKnobs):
        return None
    plain = apply(constant_array(weight), str(call.attrs.kernel_layout), "OIHW")
    spread = constant(transform_weight(plain, knobs.tile, knobs.weight_vector, knobs.order == "pixels"))
    return call_compute(
        builder,
        lambda image, factors: convolve(image, factors, workload, knobs),
        "conv2d_winograd",
        data,
        spread,
    )


def ints(values: Any) -> list[int]:
    return [int(value) for value in values]


def _out_layout(attributes: Any) -> str:
    return str(attributes.out_layout or attributes.data_layout)


__all__ = ["call_compute", "convolution_options", "ints", "packed_weight", "winograd_call"]
