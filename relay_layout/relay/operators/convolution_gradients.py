"""The gradient of a convolution with respect to its weight."""

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.operator import Operator, Scope, static_extents
from relay_layout.relay.operators.windows import (
    count,
    full_padding,
    logical_extents,
    parsed_layout,
    per_axis,
    positive,
    python_padding,
    reordered,
)


def _build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    """In this operator ``data_layout`` is the gradient's, ``kernel_layout`` the data's, and ``out_layout``
    the weight's."""
    gradient, data = operands
    if attributes.kernel_size is None:
        raise ModelError("kernel_size is needed")
    kernel = positive("kernel_size", attributes.kernel_size, 2)
    gradient_layout = parsed_layout("grad_layout", attributes.data_layout, "NCHW")
    data_layout = parsed_layout("data_layout", attributes.kernel_layout, "NCHW")
    weight_layout = parsed_layout("kernel_layout", attributes.out_layout or "OIHW", "OIHW")
    given = logical_extents(gradient_layout, static_extents(gradient), "the gradient")
    image = logical_extents(data_layout, static_extents(data), "the data")
    groups = count("groups", attributes.groups)
    if image["C"] % groups or given["C"] % groups or image["N"] != given["N"]:
        raise ModelError(
            f"a gradient of {given['N']} images with {given['C']} channels does not fit data of "
            f"{image['N']} with {image['C']} in {groups} groups"
        )
    geometry = _Geometry(
        positive("strides", attributes.strides, 2),
        positive("dilation", attributes.dilation, 2),
        full_padding(attributes.padding, 2),
        kernel,
        groups,
        attributes.out_dtype or dtype_of(gradient),
    )
    result = scope.builder.call_te(
        geometry.compute,
        scope.emit(reordered(gradient, str(gradient_layout), "NCHW")),
        scope.emit(reordered(data, str(data_layout), "NCHW")),
        primfunc_name_hint="conv2d_backward_weight",
    )
    return reordered(result, "OIHW", str(weight_layout))


class _Geometry:
    """What the convolution was, for the gradient's compute in NCHW and OIHW."""

    def __init__(
        self,
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
        padding: tuple[int, ...],
        kernel: tuple[int, ...],
        groups: int,
        dtype: str,
    ) -> None:
        self.strides, self.dilation, self.padding = strides, dilation, padding
        self.kernel, self.groups, self.dtype = kernel, groups, dtype

    def compute(self, gradient: te.Tensor, data: te.Tensor) -> te.Tensor:
        """Each weight's gradient: the sum, over all pixels that it saw, of pixel times gradient there."""
        batch, outputs, height, width = gradient.shape
        inputs = data.shape[1] // self.groups
        axes = [
            te.reduce_axis((0, size), name) for size, name in zip((batch, height, width), "nyx", strict=True)
        ]

        def element(out: tirx.Var, channel: tirx.Var, *tap: tirx.Var) -> tirx.Expr:
            image, *pixel = axes
            source = [
                pixel[axis] * self.strides[axis] + tap[axis] * self.dilation[axis] - self.padding[axis]
                for axis in range(2)
            ]
            inside = [source[axis] >= 0 for axis in range(2)]
            inside += [source[axis] < data.shape[2 + axis] for axis in range(2)]
            group = out // (outputs // self.groups)
            value = data(image, group * inputs + channel, *source)
            value = tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, data.dtype))
            product = value.astype(self.dtype) * gradient(image, out, *pixel).astype(self.dtype)
            return te.sum(product, axis=axes)

        return te.compute((outputs, inputs, *self.kernel), element, name="conv2d_backward_weight")


def _prepare(**given: Any) -> tuple[list[Any], dict[str, Any]]:
    attributes = {name: given[name] for name in ("groups", "channels", "out_dtype")}
    attributes["padding"] = python_padding(given["padding"], 2)
    for name in ("strides", "dilation", "kernel_size"):
        attributes[name] = per_axis(given[name], 2)
    attributes["data_layout"] = given["grad_layout"]
    attributes["kernel_layout"] = given["data_layout"]
    attributes["out_layout"] = given["kernel_layout"]
    return [given["grad"], given["data"]], attributes


ROW = Operator(
    "nn.conv2d_backward_weight",
    ("grad", "data"),
    _build,
    "Conv2DAttrs",
    signature=(
        "grad, data, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None, "
        "kernel_size=None, grad_layout='NCHW', data_layout='NCHW', kernel_layout='OIHW', out_dtype=''"
    ),
    prepare=_prepare,
    carried=True,
)
"""nn.conv2d_backward_weight (grad, data): the gradient of nn.conv2d's weight."""
