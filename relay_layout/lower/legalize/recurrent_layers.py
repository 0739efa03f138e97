"""Recurrent layers whose loop the target has no kernel for, as operators for each step."""

from collections.abc import Callable
from functools import partial

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.errors import TargetError
from relay_layout.ir import (
    Expression,
    bindings_of,
    dtype_of,
    operator_name,
    rebuild_functions,
    relax_functions,
    shape_of,
    simplify_bindings,
)
from relay_layout.recurrent import RECURRENT
from relay_layout.recurrent.unrolling import unrolled


def unroll_layers(module: tvm.IRModule, target: str, *, has_loop: bool) -> tvm.IRModule:
    """The module without layers that ``target``, named so, has no kernel for: all of them unless it
    ``has_loop``, else those of other floats than float32.

    Those of one step are unrolled everywhere: their products have kernels that are shared by all threads.
    TargetError where such a layer has to be unrolled and the number of its steps is not known.
    """
    unrolling = partial(_is_unrolled, target=target, has_loop=has_loop)
    functions = relax_functions(module).values()
    values = [binding.value for function in functions for binding in bindings_of(function)]
    # Before anything is rebuilt: an error in the middle of that would have TVM complain as well.
    if not any([unrolling(value) for value in values if operator_name(value) == RECURRENT]):
        return module
    return simplify_bindings(
        rebuild_functions(module, lambda function: _Unrolling(unrolling).visit_expr(function))
    )


def _is_unrolled(call: relax.Call, *, target: str, has_loop: bool) -> bool:
    """TargetError where it has to be, and cannot."""
    projected = call.args[0]
    length, dtype = (shape_of(projected) or ())[0], dtype_of(projected)
    if not has_loop:
        lacking = "a kernel for processors alone"
    elif dtype != "float32":
        lacking = f"a kernel for float32 alone, not for {dtype}"
    else:
        return bool(length == 1) if isinstance(length, int) else False
    if not isinstance(length, int):
        raise TargetError(
            f"target {target}: a recurrent layer over sequences of unknown length has {lacking}; "
            "compile for a processor, or give the model's inputs fixed shapes (--input-shape)"
        )
    return True


@mutator
class _Unrolling(PyExprMutator):
    def __init__(self, is_unrolled: Callable[[relax.Call], bool]) -> None:
        super().__init__()
        self.is_unrolled = is_unrolled

    def visit_call_(self, call: relax.Call) -> Expression:
        """The steps of a layer that the target has no kernel for; any other call stays."""
        call = super().visit_call_(call)
        if operator_name(call) != RECURRENT or not self.is_unrolled(call):
            return call
        return unrolled(self.builder_.emit, call)
