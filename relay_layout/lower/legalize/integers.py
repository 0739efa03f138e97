"""Convolutions and matrix products of bytes by constant weights, whatever their kernels.

A border of zero points, which is an operator of its own so that layouts can be chosen for it, becomes the
padding of the kernel.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator

from relay_layout.graph.uses import call_read_once, count_uses
from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    is_static,
    operator_name,
    shape_of,
)
from relay_layout.layout.transform import apply
from relay_layout.lower.legalize.byte_products import multiplies_bytes
from relay_layout.lower.legalize.convolutions import (
    call_compute,
    constant_workload,
    has_dynamic_images,
    stored_weight,
)
from relay_layout.targets.matrix_products import ROWS, product_workload
from topi_ext.indexing import physical_axes
from topi_ext.kernel import direct_convolution
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import integer_form

NAME = "conv2d_int8"
"""The name of the kernels' functions."""


class IntegerMutator(PyExprMutator):
    """Calls kernels in place of products and convolutions of uint8 by constants of int8.

    A subclass says which, by :meth:`kernel`.
    """

    takes_any_size: ClassVar[bool] = False
    """Are there kernels for images of dynamic size?"""

    def kernel(
        self,
        workload: ConvolutionWorkload,
        data: Expression,
        weight: np.ndarray,
        pad_value: int,
        *,
        any_size: bool = False,
    ) -> Expression:
        """The kernel for ``workload`` with its OIHW ``weight``; int32, whatever it accumulates in.

        ``pad_value`` lies around the image. With ``any_size`` the images have a dynamic size, and the
        workload is that of a typical one.
        """
        raise NotImplementedError

    def visit_function_(self, function: relax.Function) -> relax.Function:
        """A function, of whose tensors alone it is known how often they are read."""
        self.uses = count_uses(function)
        return super().visit_function_(function)

    def visit_call_(self, call: relax.Call) -> Expression:
        """A call of the function that computes a product of bytes; others only get their new arguments."""
        call = self.builder_.normalize(super().visit_call_(call))
        name = operator_name(call)
        if name not in ("nn.conv2d", "matmul") or not multiplies_bytes(call):
            return call
        lowered = self._convolution(call) if name == "nn.conv2d" else self._product(call)
        return call if lowered is None else lowered

    def _convolution(self, call: relax.Call) -> Expression | None:
        any_size = self.takes_any_size and has_dynamic_images(call)
        found = constant_workload(call, any_size=any_size)
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
        return self.kernel(workload, data, weight, value, any_size=any_size)

    def _product(self, call: relax.Call) -> Expression | None:
        """Rows by a matrix: a pointwise convolution whose pixels are the rows."""
        rows, matrix = call.args
        shape = shape_of(rows) or ()
        if not isinstance(matrix, Constant) or not is_static(shape) or len(shape_of(matrix) or ()) != 2:
            return None
        if len(shape) not in ROWS:
            return None
        weight = constant_array(matrix).T[:, :, None, None]
        workload = product_workload(shape, weight.shape[0], "uint8", "int32")
        return self.kernel(workload, rows, weight, 0)


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


def plain_loops(
    builder: relax.BlockBuilder,
    workload: ConvolutionWorkload,
    data: Expression,
    weight: np.ndarray,
    pad_value: int,
) -> Expression:
    """Loops for ``workload`` such as any target runs."""
    return direct_call(builder, integer_form(workload, words="none"), data, weight, pad_value)


def direct_call(
    builder: relax.BlockBuilder,
    form: ConvolutionWorkload,
    data: Expression,
    weight: np.ndarray,
    pad_value: int,
    missing: np.ndarray | None = None,
) -> Expression:
    """The direct kernel of ``form`` with its OIHW ``weight``; int32, whatever it accumulates in.

    ``missing`` holds for each output channel what is added to its sums.
    """
    stored = stored_weight(weight, form)

    def compute(tensor: te.Tensor, kernel: te.Tensor, *added: te.Tensor) -> te.Tensor:
        result = direct_convolution(tensor, kernel, form, pad_value)
        if added:
            (shares,) = added
            return te.compute(
                result.shape, lambda *index: result(*index) + shares(*_kept(shares, index)), name="whole"
            )
        if form.out_dtype == "int32":
            return result
        return te.compute(result.shape, lambda *index: result(*index).astype("int32"), name="integers")

    arguments = [data, constant(stored)]
    if missing is not None:
        extents = [missing.size if axis == "C" else 1 for axis in _plain(form.out_layout)]
        arguments.append(constant(apply(missing.reshape(extents), _plain(form.out_layout), form.out_layout)))
    return call_compute(builder, compute, NAME, *arguments)


def _plain(layout: str) -> str:
    return "".join(name for name, factor in physical_axes(layout) if not factor)


def _kept(tensor: te.Tensor, index: Sequence[tirx.Var]) -> list[Any]:
    """``index`` into a tensor whose axes may have extent one."""
    return [0 if int(extent) == 1 else place for extent, place in zip(tensor.shape, index, strict=True)]
