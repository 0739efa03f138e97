"""Convolutions and matrix products of bytes by constant weights, as the kernels of CPUs take them.

A border of zero points, which is an operator of its own so that layouts can be chosen for it, becomes the
padding of the kernel.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import tvm
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    dtype_of,
    is_static,
    operator_name,
    shape_of,
)
from relay_layout.layout_transform import apply
from relay_layout.lower.convolutions import call_compute, constant_workload
from relay_layout.uses import call_read_once, count_uses
from topi_ext.compute.convolution import conv2d
from topi_ext.indexing import physical_axes
from topi_ext.integer_forms import integer_form
from topi_ext.workload import ConvolutionWorkload


Kernel = Callable[[relax.BlockBuilder, ConvolutionWorkload, Expression, np.ndarray, int], Expression]
"""Calls the kernel for a workload with its data, OIHW weight, and what lies around the image; int32."""


def lower_integers(module: tvm.IRModule, kernel: Kernel | None = None) -> tvm.IRModule:
    """The module with functions in place of products and convolutions of uint8 by constants of int8.

    ``kernel`` makes them, :func:`dot_products` by default.
    """
    lowering = _Lowering(module)
    lowering.kernel = dot_products if kernel is None else kernel
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            lowering.uses = count_uses(function)
            lowering.builder_.update_func(variable, lowering.visit_expr(function))
    return lowering.builder_.get()


@mutator
class _Lowering(PyExprMutator):
    uses: dict[str, int]
    kernel: Kernel

    def visit_call_(self, call: relax.Call) -> Expression:
        """A call of the function that computes a product of bytes; others only get their new arguments."""
        call = self.builder_.normalize(super().visit_call_(call))
        name = operator_name(call)
        if name not in ("nn.conv2d", "matmul") or dtype_of(call) != "int32":
            return call
        if [dtype_of(argument) for argument in call.args] != ["uint8", "int8"]:
            return call
        lowered = self._convolution(call) if name == "nn.conv2d" else self._product(call)
        return call if lowered is None else lowered

    def _convolution(self, call: relax.Call) -> Expression | None:
        found = constant_workload(call)
        if found is None:
            return None
        workload, weight = found
        data, value = call.args[0], 0
        border = call_read_once(data, self.uses, self.lookup_binding)
        if border is not None and operator_name(border) == "nn.pad" and not any(workload.padding):
            padding = _padding(border, workload.data_layout)
            if padding is not None:
                data, value = border.args[0], int(border.attrs.pad_value)
                top, left, bottom, right = padding
                height, width = workload.in_height - top - bottom, workload.in_width - left - right
                workload = replace(workload, in_height=height, in_width=width, padding=padding)
        return self.kernel(self.builder_, workload, data, weight, value)

    def _product(self, call: relax.Call) -> Expression | None:
        """Rows by a matrix: a pointwise convolution whose pixels are the rows."""
        rows, matrix = call.args
        shape = shape_of(rows) or ()
        if not isinstance(matrix, Constant) or not is_static(shape) or len(shape_of(matrix) or ()) != 2:
            return None
        weight = constant_array(matrix).T[:, :, None, None]
        outputs, inputs = weight.shape[:2]
        layout = {2: "WC", 3: "NWC", 4: "NHWC"}.get(len(shape))
        if layout is None:
            return None
        extents = {"N": 1, "H": 1, **dict(zip(layout, shape, strict=True))}
        workload = ConvolutionWorkload(
            batch=extents["N"],
            in_channels=inputs,
            out_channels=outputs,
            in_height=extents["H"],
            in_width=extents["W"],
            kernel=(1, 1),
            strides=(1, 1),
            padding=(0, 0, 0, 0),
            dilation=(1, 1),
            groups=1,
            data_layout=layout,
            kernel_layout="OI16o" if outputs % 16 == 0 else "IO",
            out_layout=layout,
            dtype="uint8",
            out_dtype="int32",
        )
        return self.kernel(self.builder_, workload, rows, weight, 0)


def _padding(border: relax.Call, layout: str) -> tuple[int, int, int, int] | None:
    """How far nn.pad goes beyond rows and columns; None where it adds to other axes as well."""
    widths = [int(width) for width in border.attrs.pad_width]
    if str(border.attrs.pad_mode) != "constant":
        return None
    found = {"H": (0, 0), "W": (0, 0)}
    for place, (axis, factor) in enumerate(physical_axes(layout)):
        pair = (widths[2 * place], widths[2 * place + 1])
        if axis in found and not factor:
            found[axis] = pair
        elif any(pair):
            return None
    return (found["H"][0], found["W"][0], found["H"][1], found["W"][1])


def dot_products(
    builder: relax.BlockBuilder,
    workload: ConvolutionWorkload,
    data: Expression,
    weight: np.ndarray,
    pad_value: int,
) -> Expression:
    """The kernel for ``workload`` with its OIHW ``weight``; int32, whatever it accumulates in."""
    form = integer_form(workload)
    wider = form.kernel[1] - weight.shape[3]
    filled = np.pad(weight, ((0, 0), (0, 0), (0, 0), (0, wider)))
    axes = [axis for axis in "OIHW" if axis in form.kernel_layout]
    plain = filled.reshape(
        [extent for axis, extent in zip("OIHW", filled.shape, strict=True) if axis in axes]
    )
    stored = apply(plain, "".join(axes), form.kernel_layout).astype(form.weight_dtype)

    def compute(tensor: te.Tensor, kernel: te.Tensor) -> te.Tensor:
        result = conv2d(
            tensor,
            kernel,
            strides=form.strides,
            padding=form.padding,
            dilation=form.dilation,
            groups=form.groups,
            data_layout=form.data_layout,
            kernel_layout=form.kernel_layout,
            out_layout=form.out_layout,
            out_dtype=form.out_dtype,
            pad_value=pad_value,
        )
        if form.out_dtype == "int32":
            return result
        return te.compute(result.shape, lambda *index: result(*index).astype("int32"), name="integers")

    return call_compute(builder, compute, "conv2d_int8", data, constant(stored))


__all__ = ["Kernel", "dot_products", "lower_integers"]
