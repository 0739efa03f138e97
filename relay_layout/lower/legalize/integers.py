"""Convolutions and matrix products of bytes by constant weights, as the kernels of CPUs take them.

A border of zero points, which is an operator of its own so that layouts can be chosen for it, becomes the
padding of the kernel.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.graph.uses import call_read_once, count_uses
from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    dtype_of,
    is_static,
    operator_name,
    shape_of,
    visit_functions,
)
from relay_layout.layout.transform import apply
from relay_layout.lower.legalize.convolutions import (
    call_compute,
    call_winograd,
    chosen_knobs,
    constant_workload,
    has_dynamic_images,
    stored_weight,
)
from relay_layout.quantization.reals import SHIFT
from relay_layout.targets import CpuTarget, dense
from topi_ext.indexing import physical_axes
from topi_ext.kernel import direct_convolution
from topi_ext.knobs import WinogradKnobs
from topi_ext.word_forms import ByteWeight, integer_form
from topi_ext.workload import ConvolutionWorkload

Kernel = Callable[[relax.BlockBuilder, ConvolutionWorkload, Expression, np.ndarray, int], Expression]
"""Calls the kernel for a workload with its data, OIHW weight, and what lies around the image; int32."""

_NAME = "conv2d_int8"
"""Of functions of kernels."""


def lower_integers(module: tvm.IRModule, by: CpuTarget | Kernel) -> tvm.IRModule:
    """The module with functions in place of products and convolutions of uint8 by constants of int8.

    They are those that a processor is fastest at (:meth:`relay_layout.targets.CpuTarget.kernel_form`), or
    what a kernel calls. Where dot products of a processor read int8
    (:attr:`~topi_ext.processor.Processor.signed_words`), each tensor is shifted once for all that read it,
    and the results are brought back.
    """
    return visit_functions(_Lowering(module, by), module)


def multiplies_bytes(call: relax.Call) -> bool:
    """Whether a product or a convolution is of uint8 by int8, and gives int32."""
    return [dtype_of(each) for each in (*call.args, call)] == ["uint8", "int8", "int32"]


@mutator
class _Lowering(PyExprMutator):
    def __init__(self, module: tvm.IRModule, by: CpuTarget | Kernel) -> None:
        super().__init__(module)
        self.by = by
        self.uses: dict[str, int] = {}
        self.shifted: dict[Expression, Expression] = {}
        """Tensors of uint8, each less :data:`SHIFT` as int8."""

    def visit_function_(self, function: relax.Function) -> relax.Function:
        """A function, of whose tensors alone it is known how often they are read and what was shifted."""
        self.uses, self.shifted = count_uses(function), {}
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
        # Kernels of GPUs are for sizes that are known.
        any_size = isinstance(self.by, CpuTarget) and has_dynamic_images(call)
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
        return self._kernel(workload, data, weight, value, any_size=any_size)

    def _product(self, call: relax.Call) -> Expression | None:
        """Rows by a matrix: a pointwise convolution whose pixels are the rows."""
        rows, matrix = call.args
        shape = shape_of(rows) or ()
        if not isinstance(matrix, Constant) or not is_static(shape) or len(shape_of(matrix) or ()) != 2:
            return None
        if len(shape) not in dense.ROWS:
            return None
        weight = constant_array(matrix).T[:, :, None, None]
        workload = dense.product_workload(shape, weight.shape[0], "uint8", "int32")
        return self._kernel(workload, rows, weight, 0)

    def _kernel(
        self,
        workload: ConvolutionWorkload,
        data: Expression,
        weight: np.ndarray,
        pad_value: int,
        *,
        any_size: bool = False,
    ) -> Expression:
        """The kernel for ``workload`` with its OIHW ``weight``; int32, whatever it accumulates in.

        With ``any_size`` the images have a dynamic size, and the workload is that of a typical one.
        """
        if not isinstance(self.by, CpuTarget):
            return self.by(self.builder_, workload, data, weight, pad_value)
        form = self.by.kernel_form(
            workload, ByteWeight(weight), partial(stored_weight, weight), any_size=any_size
        )
        knobs = chosen_knobs(form, self.by.kernels, any_size)
        if isinstance(knobs, WinogradKnobs):
            return call_winograd(
                self.builder_, _NAME, form, data, weight, knobs, any_size=any_size, pad_value=pad_value
            )
        if form.data_dtype == workload.dtype:
            return _call(self.builder_, form, data, weight, pad_value)
        if data not in self.shifted:
            moved = self.builder_.emit(relax.op.bitwise_xor(data, constant(np.array(SHIFT, "uint8"))))
            self.shifted[data] = self.builder_.emit(relax.op.astype(moved, "int8"))
        missing = SHIFT * weight.sum(axis=(1, 2, 3), dtype="int32")
        return _call(self.builder_, form, self.shifted[data], weight, pad_value - SHIFT, missing)

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """What a block has emitted, others do not see."""
        self.shifted = {}
        return super().visit_dataflow_block_(block)


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
    return _call(builder, integer_form(workload, words="none"), data, weight, pad_value)


def _call(
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
    return call_compute(builder, compute, _NAME, *arguments)


def _plain(layout: str) -> str:
    return "".join(name for name, factor in physical_axes(layout) if not factor)


def _kept(tensor: te.Tensor, index: Sequence[tirx.Var]) -> list[Any]:
    """``index`` into a tensor whose axes may have extent one."""
    return [0 if int(extent) == 1 else place for extent, place in zip(tensor.shape, index, strict=True)]
