"""Convolutions and matrix products of bytes, as the kernels of CPUs take them."""

from functools import partial
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from relay_layout.ir import Expression, constant, visit_functions
from relay_layout.lower.legalize.convolutions import call_winograd, chosen_knobs, stored_weight
from relay_layout.lower.legalize.integers import NAME, IntegerMutator, direct_call
from relay_layout.quantization.reals import SHIFT
from relay_layout.targets import CpuTarget
from topi_ext.knobs import WinogradKnobs
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import ByteWeight


def lower_integers(module: tvm.IRModule, target: CpuTarget) -> tvm.IRModule:
    """The module with functions in place of products and convolutions of uint8 by constants of int8.

    They are those that the processor is fastest at (:meth:`relay_layout.targets.CpuTarget.kernel_form`).
    Where its dot products read int8 (:attr:`~topi_ext.machine.processor.Processor.signed_words`), each tensor
    is shifted once for all that read it, and the results are brought back.
    """
    return visit_functions(_Lowering(module, target), module)


@mutator
class _Lowering(IntegerMutator):
    takes_any_size: ClassVar[bool] = True

    def __init__(self, module: tvm.IRModule, target: CpuTarget) -> None:
        super().__init__(module)
        self.target = target
        self.shifted: dict[Expression, Expression] = {}
        """Tensors of uint8, each less :data:`SHIFT` as int8."""

    def visit_function_(self, function: relax.Function) -> relax.Function:
        """What one function has shifted, others do not see."""
        self.shifted = {}
        return super().visit_function_(function)

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """What a block has emitted, others do not see."""
        self.shifted = {}
        return super().visit_dataflow_block_(block)

    def kernel(
        self,
        workload: ConvolutionWorkload,
        data: Expression,
        weight: np.ndarray,
        pad_value: int,
        *,
        any_size: bool = False,
    ) -> Expression:
        """The kernel of the form that is fastest."""
        stored = partial(stored_weight, weight)
        form = self.target.kernel_form(workload, ByteWeight(weight), stored, any_size=any_size)
        knobs = chosen_knobs(form, self.target.kernels, any_size)
        if isinstance(knobs, WinogradKnobs):
            return call_winograd(
                self.builder_, NAME, form, data, weight, knobs, any_size=any_size, pad_value=pad_value
            )
        if form.data_dtype == workload.dtype:
            return direct_call(self.builder_, form, data, weight, pad_value)
        if data not in self.shifted:
            moved = self.builder_.emit(relax.op.bitwise_xor(data, constant(np.array(SHIFT, "uint8"))))
            self.shifted[data] = self.builder_.emit(relax.op.astype(moved, "int8"))
        missing = SHIFT * weight.sum(axis=(1, 2, 3), dtype="int32")
        return direct_call(self.builder_, form, self.shifted[data], weight, pad_value - SHIFT, missing)
