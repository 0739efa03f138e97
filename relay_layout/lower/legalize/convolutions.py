"""Convolutions as calls of our kernels: with packed weights, and by Winograd where that is faster."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from tvm import relax, te

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    ints,
    is_static,
    operator_name,
    out_layout,
    shape_of,
)
from relay_layout.layout.transform import apply
from relay_layout.lower.dynamic_shapes.typical_size import of_typical_size
from relay_layout.lower.fusion.patterns import OUT_ELEMENTWISE_FUSABLE, PATTERN
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets import CpuTarget
from relay_layout.targets.convolutions import (
    CONVOLUTION_AXES,
    TRANSPOSED_CONVOLUTIONS,
    Convolution,
    convolution_with,
    packed_kernel,
    with_merged_groups,
)
from topi_ext.chooser import KernelChooser
from topi_ext.codegen.bfloat16 import BITS
from topi_ext.compute.convolution import as_image, workload_of
from topi_ext.compute.geometry import geometry_of
from topi_ext.compute.winograd_any_size import winograd_any_size
from topi_ext.indexing import logical_extent, physical_axes
from topi_ext.kernel import convolve, direct_convolution
from topi_ext.knobs import Knobs, WinogradKnobs
from topi_ext.spaces.any_size import suits_any_size
from topi_ext.weights import fill_vectors, merge_groups, winograd_weight
from topi_ext.workloads.convolution import ConvolutionWorkload, padded_lanes


def call_compute(
    builder: relax.BlockBuilder, function: Callable[..., te.Tensor], name: str, *arguments: Expression
) -> Expression:
    """A call of a compute, into whose function elementwise consumers may be fused."""
    return builder.call_te(
        function,
        *arguments,
        primfunc_name_hint=name,
        primfunc_attrs={PATTERN: OUT_ELEMENTWISE_FUSABLE},
    )


def packed_weight(call: relax.Call) -> tuple[Expression, str, int | None]:
    """The weight, packed for its kernel if it is constant, its layout then, and its number of outputs.

    The number is given if outputs do not fill the vectors of that layout, which zeros then pad; else None.
    """
    data, weight = call.args
    attributes = call.attrs
    kernel_layout = str(attributes.kernel_layout)
    shapes = [shape_of(data) or (), shape_of(weight) or ()]
    if not isinstance(weight, Constant):
        return weight, kernel_layout, None
    convolution = _with_blocks(operator_name(call), attributes, shapes)
    if convolution is None:
        return weight, kernel_layout, None
    result_layout = out_layout(attributes)
    packed = packed_kernel(convolution, kernel_layout, result_layout)
    if packed == kernel_layout:
        return weight, kernel_layout, None
    groups, outputs = convolution.groups, convolution.out_channels
    lanes = padded_lanes(packed, result_layout, groups, outputs)
    if not lanes:
        return constant(apply(constant_array(weight), kernel_layout, packed)), packed, None
    plain = "O" + "".join(axis for axis in kernel_layout if axis.isupper() and axis != "O")
    filled = fill_vectors(apply(constant_array(weight), kernel_layout, plain), groups, lanes)
    return constant(apply(filled, plain if groups == 1 else f"G{plain}", packed)), packed, outputs


def _with_blocks(operator: str, attributes: Any, shapes: list[Any]) -> Convolution | None:
    """As :func:`convolution_with`, but data and kernel of plain convolutions may be blocked."""
    if operator in TRANSPOSED_CONVOLUTIONS:
        return convolution_with(operator, attributes, shapes)
    spatial = CONVOLUTION_AXES[operator][2:]
    data, weight = (
        {axis: logical_extent(str(layout), shape, axis) for axis in axes}
        for layout, shape, axes in zip(
            (attributes.data_layout, attributes.kernel_layout),
            shapes,
            (f"NC{spatial}", f"OI{spatial}"),
            strict=True,
        )
    )
    if not all(isinstance(extent, int) for extent in (data["C"], *weight.values())):
        return None
    return Convolution(
        operator,
        data["N"],
        data["C"],
        weight["O"],
        tuple(data[axis] for axis in spatial),
        tuple(weight[axis] for axis in spatial),
        int(attributes.groups),
    )


def convolution_options(attributes: Any, kernel_layout: str) -> dict[str, Any]:
    """The attributes of a call as keyword arguments of the computes of convolutions."""
    return {
        "strides": ints(attributes.strides),
        "padding": ints(attributes.padding),
        "dilation": ints(attributes.dilation),
        "groups": int(attributes.groups),
        "data_layout": str(attributes.data_layout),
        "kernel_layout": kernel_layout,
        "out_layout": out_layout(attributes),
        "out_dtype": str(attributes.out_dtype) if attributes.out_dtype else None,
    }


def constant_convolution(
    builder: relax.BlockBuilder, call: relax.Call, target: CpuTarget, images: int | None
) -> Expression | None:
    """A convolution whose weight is stored as its kernel reads it: transformed, with its groups merged, or in
    words of another type.

    ``images`` is a typical batch, for symbolic ones on which the choice depends. None if the kernel reads the
    weight as it is, or only packed.
    """
    any_size = has_dynamic_images(call)
    found = constant_workload(call, any_size=any_size)
    if found is None:
        return None
    workload, plain = found
    if images is not None:
        workload = replace(workload, batch=images)
    name = operator_name(call).removeprefix("nn.")
    form = target.float_form(workload, any_size=any_size)
    if form is not workload:
        return call_form(builder, name, form, call.args[0], constant(stored_weight(plain, form)))
    knobs = chosen_knobs(workload, target.kernels, any_size)
    if isinstance(knobs, WinogradKnobs):
        return call_winograd(builder, name, workload, call.args[0], plain, knobs, any_size=any_size)
    if workload.groups == int(call.attrs.groups):
        return None
    return call_form(builder, name, workload, call.args[0], constant(stored_weight(plain, workload)))


def chosen_knobs(workload: ConvolutionWorkload, kernels: KernelChooser, any_size: bool) -> Knobs | None:
    """The knobs of the workload's kernel.

    With ``any_size`` those of a kernel for images of dynamic size; None where there is no such kernel.
    """
    if any_size and not suits_any_size(workload):
        return None
    return kernels.choose(workload, any_size=any_size).knobs


def call_winograd(
    builder: relax.BlockBuilder,
    name: str,
    workload: ConvolutionWorkload,
    data: Expression,
    weight: np.ndarray,
    knobs: WinogradKnobs,
    *,
    any_size: bool,
    pad_value: int = 0,
) -> Expression:
    """A call of a Winograd kernel with an OIHW weight; with ``any_size`` that for images of dynamic size."""
    spread = winograd_weight(weight, workload, knobs)
    convolution = winograd_any_size if any_size else convolve
    compute = partial(convolution, workload=workload, knobs=knobs, pad_value=pad_value)
    return call_compute(builder, compute, f"{name}_winograd", data, constant(spread))


def typical_workload(call: relax.Call) -> ConvolutionWorkload | None:
    """The workload of a convolution of images of dynamic size, at a typical size; None for a static size."""
    found = constant_workload(call, any_size=True) if has_dynamic_images(call) else None
    return None if found is None else found[0]


def has_dynamic_images(call: relax.Call) -> bool:
    """Is the height, width or depth of the images symbolic?"""
    shape = shape_of(call.args[0])
    if shape is None:
        return False
    axes = physical_axes(str(call.attrs.data_layout))
    return not is_static([extent for (axis, _), extent in zip(axes, shape, strict=True) if axis in "DHW"])


def call_form(
    builder: relax.BlockBuilder, name: str, form: ConvolutionWorkload, data: Expression, stored: Constant
) -> Expression:
    """A call of the direct kernel of a workload; the weight is as :func:`stored_weight` returns it."""
    return call_compute(builder, partial(direct_convolution, workload=form), name, data, stored)


def stored_weight(weight: np.ndarray, form: ConvolutionWorkload) -> np.ndarray:
    """An OIHW or OIDHW weight as the kernel of ``form`` reads it.

    Zeros are added on the right if that kernel is wider, and after the outputs if these do not fill vectors.
    """
    wider = form.kernel[1] - weight.shape[-1]
    if wider:
        weight = np.pad(weight, (*[(0, 0)] * (weight.ndim - 1), (0, wider)))
    if form.padded_lanes:
        weight = fill_vectors(weight, 1, form.padded_lanes)
    plain = f"OI{form.spatial}"
    axes = [axis for axis in plain if axis in form.kernel_layout]
    extents = dict(zip(plain, weight.shape, strict=True))
    stored = apply(weight.reshape([extents[axis] for axis in axes]), "".join(axes), form.kernel_layout)
    if form.weight_dtype == BITS:
        return stored.astype(ml_dtypes.bfloat16).view(BITS)
    return stored.astype(form.weight_dtype, copy=False)


def constant_workload(call: relax.Call, *, any_size: bool) -> tuple[ConvolutionWorkload, np.ndarray] | None:
    """The workload of a convolution by a constant weight, with its groups merged, and that weight.

    The weight is OIHW or OIDHW; a sequence counts as an image of one row. None for computed weights, symbolic
    channels, and images of symbolic size, unless ``any_size`` is set, which assumes a typical size.
    """
    data, weight = call.args
    if not isinstance(weight, Constant):
        return None
    operator = operator_name(call)
    spatial = CONVOLUTION_AXES[operator][2:]
    plain = apply(constant_array(weight), str(call.attrs.kernel_layout), f"OI{spatial}")
    packed, kernel_layout, out_channels = packed_weight(call)
    options = convolution_options(call.attrs, kernel_layout) | {"out_channels": out_channels}
    if operator == "nn.conv1d":
        plain = plain[:, :, None]
        options |= as_image(options["strides"], options["padding"], options["dilation"])
    placeholders = [te.placeholder(shape_of(part) or (), str(part.ty.dtype)) for part in (data, packed)]
    workload = workload_of(geometry_of("DHW" if spatial == "DHW" else "HW", *placeholders, **options))
    if any_size:
        workload = of_typical_size(workload)
    if not workload.is_static:
        return None
    whole, layouts = with_merged_groups(
        Convolution(
            operator,
            workload.batch,
            workload.in_channels,
            workload.out_channels,
            (workload.in_depth, workload.in_height, workload.in_width)[-len(spatial) :],
            (workload.kernel_depth, *workload.kernel)[-len(spatial) :],
            workload.groups,
        ),
        ConvolutionLayouts(workload.data_layout, kernel_layout, workload.out_layout),
    )
    if whole.groups == workload.groups:
        return workload, plain
    merged_weight = merge_groups(plain, workload.groups, whole.groups)
    return replace(workload, groups=whole.groups, kernel_layout=layouts.kernel), merged_weight
