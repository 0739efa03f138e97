"""Divisions by constants as products with what is one over them."""

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Constant, Expression, constant, constant_array, operator_name, rebuild_functions


def divisions_to_products(module: tvm.IRModule) -> tvm.IRModule:
    """The module with products in the place of divisions of floats by constants without a 0."""
    return rebuild_functions(module, lambda function: _Products().visit_expr(function))


@mutator
class _Products(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """A division as a product; other calls only get their new arguments."""
        call = super().visit_call_(call)
        if operator_name(call) != "divide" or not isinstance(call.args[1], Constant):
            return call
        divisor = constant_array(call.args[1])
        if divisor.dtype.kind != "f" or not divisor.all():
            return call
        inverse = (1 / divisor.astype("float64")).astype(divisor.dtype)
        return relax.op.multiply(call.args[0], constant(np.asarray(inverse)))
